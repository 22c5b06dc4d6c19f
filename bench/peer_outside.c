/* A contender in a program of its own, bench/outside.py, since it comes as a Python package: it is
 * told over a socket "put ROWS OPS" or "get ROWS OPS", does so many operations, compares what it
 * got, and answers "ok CLIENT_CPU SERVER_CPU LATENCY...", all in ns, or "failed WORDS". Tuned,
 * it is one whose threads never sleep: it stands still when it is not its turn. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "peer.h"

enum { PATIENCE_S = 300 }; /* with one burst */

struct connection {
	struct peer *peer;
	FILE *socket;
	pid_t stopped; /* its process group when it is not its turn; 0: it runs on */
	char *line;
	size_t line_bytes;
};

static bool outside_open(struct peer *peer)
{
	(void)peer;
	return true;
}

static void outside_close(struct peer *peer)
{
	(void)peer;
}

static FILE *dial(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = PATIENCE_S};
	int fd;

	if (strlen(path) >= sizeof to.sun_path) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	memcpy(to.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
	    connect(fd, (const struct sockaddr *)&to, sizeof to) == 0) {
		FILE *file = fdopen(fd, "r");

		if (file != NULL)
			return file;
	}
	close(fd);
	return NULL;
}

/* It leads a process group, of all that it has started. */
static pid_t leader_of(FILE *socket)
{
	struct ucred peer;
	socklen_t bytes = sizeof peer;

	return getsockopt(fileno(socket), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
}

static void turn(const struct connection *c, int signal)
{
	if (c->stopped > 1)
		kill(-c->stopped, signal);
}

static void *outside_connect(struct peer *peer, uint32_t batch_max, bool fresh)
{
	struct connection *c = calloc(1, sizeof *c);

	(void)batch_max;
	(void)fresh;
	if (c == NULL)
		return NULL;
	c->peer = peer;
	c->socket = dial(peer->address);
	if (c->socket != NULL) {
		if (peer->tuned)
			c->stopped = leader_of(c->socket);
		turn(c, SIGSTOP);
		return c;
	}
	peer_fail(peer, "%s: %s", peer->address, strerror(errno));
	free(c);
	return NULL;
}

static void outside_disconnect(void *connection)
{
	struct connection *c = connection;

	turn(c, SIGCONT);
	fclose(c->socket);
	free(c->line);
	free(c);
}

static bool parse(struct connection *c, struct peer_burst *burst)
{
	char *at = c->line, *end;

	if (strncmp(at, "failed ", 7) == 0)
		at += 7;
	if (strncmp(c->line, "ok ", 3) != 0)
		return peer_fail(c->peer, "%.*s", (int)strcspn(at, "\n"), at);
	burst->client_cpu_ns = strtoull(at + 3, &at, 10);
	burst->server_cpu_ns = strtoull(at, &at, 10);
	for (uint32_t i = 0; i < burst->ops; i++, at = end) {
		burst->latency_ns[i] = strtod(at, &end);
		if (end == at)
			return peer_fail(c->peer, "it told of %u operations, not of %u", i, burst->ops);
	}
	return true;
}

static bool ask(struct connection *c, struct peer_burst *burst)
{
	char words[64];
	int length = snprintf(words, sizeof words, "%s %u %u\n", burst->puts ? "put" : "get",
	                      burst->rows, burst->ops);

	if (send(fileno(c->socket), words, (size_t)length, MSG_NOSIGNAL) != length)
		return peer_fail(c->peer, "it is gone: %s", strerror(errno));
	errno = 0;
	if (getline(&c->line, &c->line_bytes, c->socket) < 0)
		return peer_fail(c->peer, "no answer: %s", errno != 0 ? strerror(errno) : "it ended");
	return parse(c, burst);
}

static bool outside_burst(void *connection, struct peer_burst *burst)
{
	turn(connection, SIGCONT);
	bool ok = ask(connection, burst);
	turn(connection, SIGSTOP);
	return ok;
}

const struct peer_kind peer_outside = {
	.name = "outside",
	.open = outside_open,
	.close = outside_close,
	.connect = outside_connect,
	.disconnect = outside_disconnect,
	.burst = outside_burst,
};
