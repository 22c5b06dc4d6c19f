#include "selection.h"

int sy_selection_open(const struct sy_cli *cli, struct sy_selection *selection)
{
	sy_error err = {0};
	sy_status status = selection->rows_text != NULL
	                       ? sy_row_list_parse(selection->rows_text, &selection->rows, &err)
	                       : sy_row_list_all(&selection->rows, &err);
	if (status == SY_OK && selection->fields_text != NULL)
		status = sy_field_list_parse(selection->fields_text, &selection->fields, &err);
	if (status == SY_OK)
		return SY_EXIT_DONE;
	sy_selection_close(selection);
	if (status == SY_E_INVALID)
		return sy_cli_misused(cli, "%s", err.message);
	return sy_cli_fail(cli, "%s", err.message);
}

void sy_selection_close(struct sy_selection *selection)
{
	sy_row_list_done(&selection->rows);
	sy_field_list_done(&selection->fields);
}

int sy_selection_scan(const struct sy_cli *cli, const struct sy_selection *selection,
                      sy_client **ret_client, struct sy_entries *ret_entries)
{
	sy_client *client = NULL;
	sy_error err = {0};
	int exit_status = sy_cluster_client_open(cli, &client);
	if (exit_status != SY_EXIT_DONE)
		return exit_status;
	if (sy_entries_scan(client, &selection->rows, &selection->fields, ret_entries, &err) !=
	    SY_OK) {
		exit_status = sy_cluster_client_fail(cli, &err);
		sy_client_close(client);
		return exit_status;
	}
	*ret_client = client;
	return SY_EXIT_DONE;
}
