/* The unit's requests: handle_put.c, handle_resolve.c, handle_release.c, job.c, entry_add.c. */

/* A reply finds its request out, or nobody. */
inline answer(c, m, what, at_region, its_generation)
{
	if
	:: client[c].stage == SENT && client[c].last == m ->
		client[c].reply = what;
		client[c].at = at_region;
		client[c].reply_generation = its_generation
	:: else
	fi
}

/* sy_blob_find: `o` is the region of the blob of this id, or REGIONS. RETIRED ones are found by
 * name only. */
inline find_blob(c, id)
{
	o = 0;
	do
	:: o == REGIONS || (region[o].owner == c && region[o].blob == id && !region[o].early &&
	   (region[o].state == SY_BLOB_ALLOCATED || region[o].state == SY_BLOB_PUBLISHED ||
	    region[o].state == SY_BLOB_RELEASED)) -> break
	:: else -> o++
	od
}

/* entry_add.c: its entry is linked, and the older one of the row goes. Releases accepted before
 * it spare it: they know regions by what stood in them then. */
inline publish(at)
{
	CLAIM(I5, region[at].written);
	sy_move(region[at].state, SY_BLOB_PUBLISHED);
	region[at].session = 0;
	region[at].name = 0;
	for (r : 0 .. REGIONS - 1) {
		if
		:: r != at && region[r].state == SY_BLOB_PUBLISHED ->
			SEEN(overwritten)
			last_entry_gone(r)
		:: else
		fi
	}
	for (i : 0 .. CLIENTS * REQUESTS - 1) {
		request[i].older = request[i].older & ~(1 << at)
	}
	truth = at + 1
}

/* handle_put.c: alloc and put_inline, whose bytes come with it. */
inline run_put(c, m)
{
	CLAIM(I4, !late);
	named = RQ(c, m).blob;
	find_blob(c, named);
	if
	:: o < REGIONS && region[o].state == SY_BLOB_ALLOCATED ->
		answer(c, m, REFUSED, 0, 0)
	:: o < REGIONS && region[o].state != SY_BLOB_ALLOCATED ->
		SEEN(put_of_a_published_blob)
		answer(c, m, PUBLISHED, 0, 0)
	:: else ->
		o = (region[0].state == SY_BLOB_FREE -> 0 :
		     (region[1].state == SY_BLOB_FREE -> 1 : REGIONS));
		if
		:: o == REGIONS ->
			SEEN(unit_full)
			answer(c, m, REFUSED, 0, 0)
		:: else ->
			CLAIM(I1, !TOUCHED(o));
			sy_move(region[o].state, SY_BLOB_ALLOCATED);
			region[o].owner = c;
			region[o].session = RQ(c, m).session;
			region[o].name = m;
			region[o].generation = ID(c, m) + 1;
			region[o].blob = RQ(c, m).blob;
			if
			:: RQ(c, m).op == PUT_INLINE ->
				region[o].written = 1;
				k = o;
				publish(k);
				answer(c, m, PUBLISHED, 0, 0)
			:: else -> answer(c, m, REGION, o, ID(c, m) + 1)
			fi
		fi
	fi
}

/* grant.c: sy_grant_next, of a commit that was published. */
inline publish_and_grant(c, m, at)
{
	publish(at);
	o = (region[0].state == SY_BLOB_FREE -> 0 :
	     (region[1].state == SY_BLOB_FREE -> 1 : REGIONS));
	if
	:: o < REGIONS && RQ(c, m).wants ->
		SEEN(granted)
		CLAIM(I1, !TOUCHED(o));
		sy_move(region[o].state, SY_BLOB_ALLOCATED);
		region[o].owner = c;
		region[o].session = RQ(c, m).session;
		region[o].name = m;
		region[o].generation = ID(c, m) + 1;
		region[o].early = 1;
		answer(c, m, PUBLISHED, o, ID(c, m) + 1)
	:: else -> answer(c, m, PUBLISHED, 0, 0)
	fi
}

/* handle_put.c: commit of what was written to a grant, which is its alloc as well. */
#define IS_CLAIMED(c, m, at) (region[at].early && region[at].generation == RQ(c, m).generation && \
                              region[at].state == SY_BLOB_ALLOCATED && \
                              region[at].session == RQ(c, m).session)
inline run_claim(c, m)
{
	find_blob(c, named);
	r = o;
	find_reservation(c, RQ(c, m).grant);
	k = o;
	if
	:: k < REGIONS && IS_CLAIMED(c, m, k) && r == REGIONS ->
		SEEN(grant_claimed)
		region[k].early = 0;
		region[k].blob = named;
		CLAIM(I4, !late);
		publish_and_grant(c, m, k)
	:: k < REGIONS && IS_CLAIMED(c, m, k) && r < REGIONS &&
	   region[r].state != SY_BLOB_ALLOCATED ->
		SEEN(claimed_for_a_published_blob)
		give_region(k);
		answer(c, m, PUBLISHED, 0, 0)
	:: (k == REGIONS || !IS_CLAIMED(c, m, k)) && r < REGIONS &&
	   region[r].state != SY_BLOB_ALLOCATED && region[r].generation == RQ(c, m).generation ->
		answer(c, m, PUBLISHED, 0, 0)
	:: else ->
		SEEN(claim_of_what_is_gone)
		answer(c, m, REFUSED, 0, 0)
	fi
}

/* handle_put.c: commit. */
inline run_plain_commit(c, m)
{
	if
	:: o < REGIONS && region[o].state == SY_BLOB_ALLOCATED &&
	   region[o].session == RQ(c, m).session &&
	   (region[o].generation == RQ(c, m).generation || mutant == NO_GENERATION) ->
		k = o;
		CLAIM(I4, !late);
		publish_and_grant(c, m, k)
	:: o < REGIONS && region[o].state != SY_BLOB_ALLOCATED &&
	   region[o].generation == RQ(c, m).generation ->
		SEEN(commit_of_a_published_blob)
		answer(c, m, PUBLISHED, 0, 0)
	:: else ->
		SEEN(commit_of_what_is_gone)
		if
		:: o < REGIONS && region[o].state == SY_BLOB_ALLOCATED &&
		   region[o].session == RQ(c, m).session -> SEEN(commit_of_an_older_grant)
		:: else
		fi;
		answer(c, m, REFUSED, 0, 0)
	fi
}

inline run_commit(c, m)
{
	named = RQ(c, m).blob;
	find_blob(c, named);
	if
	:: RQ(c, m).grant != 0 -> run_claim(c, m)
	:: RQ(c, m).grant == 0 -> run_plain_commit(c, m)
	fi
}

/* handle_resolve.c. What a release under way has not cleared yet may be found. */
inline run_resolve(c, m)
{
	CLAIM(I4, !late);
	o = (region[0].state == SY_BLOB_PUBLISHED -> 0 :
	     (region[1].state == SY_BLOB_PUBLISHED -> 1 : REGIONS));
	if
	:: o == REGIONS ->
		CLAIM(I8, truth == 0);
		answer(c, m, ABSENT, 0, 0)
	:: else ->
		loop = (truth == o + 1);
		for (i : 0 .. CLIENTS * REQUESTS - 1) {
			loop = loop || (request[i].works && (request[i].older & (1 << o)))
		}
		CLAIM(I8, loop);
		RQ(c, m).pin = o + 1;
		region[o].pins++;
		answer(c, m, FOUND, o, region[o].generation)
	fi
}

/* job.c: sy_job_new. One with nothing to clear is done at once. */
inline run_release(c, m)
{
	CLAIM(I4, !late);
	truth = 0;
	loop = (region[0].state == SY_BLOB_PUBLISHED) + 2 * (region[1].state == SY_BLOB_PUBLISHED);
	if
	:: loop == 0 || mutant == ANSWERS_EARLY -> answer(c, m, CLEARED, 0, 0)
	:: else ->
		RQ(c, m).works = 1;
		RQ(c, m).heard = 1;
		RQ(c, m).older = loop
	fi
}

/* sy_jobs_run: clears its row in one step, and answers. */
inline work(c, m)
{
	printf("unit: does release %d of client %d\n", m, c);
	for (r : 0 .. REGIONS - 1) {
		if
		:: region[r].state == SY_BLOB_PUBLISHED &&
		   ((RQ(c, m).older & (1 << r)) || mutant == CLEARS_LATER) ->
			CLAIM(I8, truth != r + 1);
			last_entry_gone(r)
		:: region[r].state == SY_BLOB_PUBLISHED && !(RQ(c, m).older & (1 << r)) &&
		   mutant != CLEARS_LATER -> SEEN(release_spared_a_later_commit)
		:: else
		fi
	}
	if
	:: RQ(c, m).heard -> answer(c, m, CLEARED, 0, 0)
	:: else -> SEEN(release_done_for_nobody)
	fi;
	RQ(c, m).works = 0;
	RQ(c, m).heard = 0;
	RQ(c, m).older = 0;
	tidy(ID(c, m))
}

/* core.c: run_in_slot. A commit that is late is refused for its reservation's sake, which its
 * put has aborted; every other late request for its slot's. */
inline run_in_slot(c, m)
{
	printf("unit: runs request %d of client %d: op=%d\n", m, c, RQ(c, m).op);
	CLAIM(I4, m > SEQ(c, in));
	CLAIM(I5, SS(c, RQ(c, m).session).state == LIVE);
	late = (m < slots[c].seq0 || m < slots[c].seq1);
	forget_waiting(c, in);
	set_seq(c, in, m);
	if
	:: RQ(c, m).op == ALLOC || RQ(c, m).op == PUT_INLINE -> run_put(c, m)
	:: RQ(c, m).op == COMMIT -> run_commit(c, m)
	:: RQ(c, m).op == RESOLVE -> run_resolve(c, m)
	:: RQ(c, m).op == RELEASE -> run_release(c, m)
	fi
}
