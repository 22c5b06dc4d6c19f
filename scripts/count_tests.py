"""Reads out of a test program's output how many tests passed, failed and were skipped.

Understood are, in this order: a last line `N passed, M failed`, cmocka, Python's unittest, TAP;
a program that prints none of them is one test, and its exit status says how it went (77: skipped,
and the last line it printed is the reason).
"""

import re
from dataclasses import dataclass, field

SKIP_STATUS = 77


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skips: list = field(default_factory=list)  # (test, reason)
    note: str = ""
    shown: list = field(default_factory=list)  # lines of output that say what failed

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skips += other.skips
        self.shown += other.shown
        self.note = "; ".join(note for note in (self.note, other.note) if note)


def total(pattern, text):
    return sum(int(n) for n in re.findall(pattern, text, re.M))


def of_plain_line(text, name):
    found = re.findall(r"^(\d+) passed, (\d+) failed(?:, \d+ skipped)?\s*$", text, re.M)
    if not found:
        return None
    passed, failed = found[-1]
    skips = [(name, reason.strip()) for reason in re.findall(r"^skip:? (.+)$", text, re.M)]
    return Count(int(passed), int(failed), skips)


def of_cmocka(text, name):
    started = total(r"^\[==========\] .*?Running (\d+) test", text)
    if "[==========]" not in text:
        return None
    passed = total(r"^\[  PASSED  \] (\d+) test", text)
    skipped = total(r"^\[  SKIPPED \] (?:.*: )?(\d+) test\(s\), listed", text)
    reasons = re.findall(r"^skip: (.+)$", text, re.M)
    reasons += ["no reason seen: print one as \"skip: REASON\""] * (skipped - len(reasons))
    # That they could not be cleaned up after says nothing of each and does not end the program in
    # failure. One that died in the middle never said how its tests ended: those all failed.
    teardown = len(re.findall(r"^\[  FAILED  \] GROUP TEARDOWN", text, re.M))
    return Count(
        passed,
        max(0, started - passed - skipped) + teardown,
        [(name, reason.strip()) for reason in reasons[:skipped]],
    )


def of_unittest(text, name):
    ran = total(r"^Ran (\d+) tests? in ", text)
    end = re.findall(r"^(OK|FAILED)(?: \((.*)\))?\s*$", text, re.M)
    if not re.search(r"^Ran \d+ tests? in ", text, re.M) or not end:
        return None
    numbers = dict(part.split("=") for part in (end[-1][1] or "").split(", ") if "=" in part)
    failed = sum(
        int(numbers.get(key, 0)) for key in ("failures", "errors", "unexpected successes")
    )
    skipped = int(numbers.get("skipped", 0))
    reasons = re.findall(r"\.\.\. skipped ['\"](.*)['\"]\s*$", text, re.M)
    reasons += ["no reason seen: run unittest with verbosity=2"] * (skipped - len(reasons))
    return Count(max(0, ran - failed - skipped), failed, [(name, r) for r in reasons[:skipped]])


def of_tap(text, name):
    lines = re.findall(
        r"^(not ok|ok)\b(?: \d+)?(?: -)?\s*([^#\n]*)(?:# *(SKIP\S*|TOD[O])\s*(.*))?$", text, re.M
    )
    plan = re.findall(r"^1\.\.(\d+)", text, re.M)
    if not lines or not plan:
        return None
    skips = [
        (f"{name}: {title.strip()}", reason)
        for word, title, what, reason in lines
        if what.upper().startswith("SKIP")
    ]
    failed = sum(1 for word, _, what, _ in lines if word == "not ok" and not what)
    passed = len(lines) - failed - len(skips)
    return Count(passed, failed + max(0, int(plan[-1]) - len(lines)), skips)


def count_output(text, status, name):
    """What one program's output says; status is its exit status, None if it ran out of time."""
    if status == SKIP_STATUS:
        lines = [line for line in text.splitlines() if line.strip()]
        return Count(skips=[(name, lines[-1].strip() if lines else "no reason given")])
    for reader in (of_plain_line, of_cmocka, of_unittest, of_tap):
        count = reader(text, name)
        if count is not None:
            break
    else:
        count = Count(passed=1 if status == 0 else 0, failed=0 if status == 0 else 1)
    if status is None:
        count.note = f"{name} ran out of time"
    elif status != 0:
        count.note = f"{name} ended with status {status}"
    if status != 0 and count.failed == 0:
        count.failed = 1
    if count.passed == 0 and count.failed == 0 and not count.skips:
        count.failed, count.note = 1, f"{name} ran no test"
    return count
