"""What lint.py holds the tree to, as data: this is the one place to change a rule's bounds."""

import re

FILE_LINES = 600
FUNCTION_LINES = 70
LINE_COLUMNS = 99
WIDE_FILES = {"scripts/suites"}  # a table: each suite is one line
TAB_COLUMNS = 4

# Each folder of src/ and the folders whose headers it may name, itself aside.
FOLDERS = {
    "base": [],
    "core": ["base"],
    "wire": ["base"],
    "io": ["base", "wire"],
    "ucx": ["io", "base"],
    "unit": ["core", "wire", "ucx", "io", "base"],
    "directory": ["wire", "io", "base"],
    "client": ["ucx", "io", "wire", "base"],
    "cli": ["unit", "directory", "io", "base"],
}

# Files that get time, bytes and messages as arguments: no clock, thread, socket, file or stdio.
SANS_IO = [
    "src/base/*",
    "src/core/*",
    "src/wire/*",
    "src/client/machine*",
    "src/client/verdict*",
    "src/unit/serve*",
    "src/unit/keep*",
    "src/unit/lease*",
    "src/unit/tier_record*",
    "src/directory/registry*",
]

# The strictest: no allocation either, and of the system's headers only these.
NO_LIBC = ["src/base/*", "src/core/*"]
NO_LIBC_HEADERS = set("""
inttypes.h limits.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h string.h
immintrin.h emmintrin.h nmmintrin.h cpuid.h arm_acle.h arm_neon.h
""".split())
SANS_IO_BANNED_HEADERS = re.compile(
    r"^(time|pthread|threads|stdio|unistd|fcntl|poll|zmq|signal|semaphore|sched|dirent|syslog"
    r"|sys/.*|linux/.*|netinet/.*|arpa/.*)\.h$|^(sys|linux|netinet|arpa)/"
)

# A mutant is planted where SY_MUTANT(number) stands; each invariant has at least this many.
MUTANTS_AN_INVARIANT = 2

# Each kind of effect and of notice has its point in failpoints.h: the list of kinds, the prefix of
# their points. Those left out cannot happen on one host: a slab that only the host's own processes
# write needs no fence, and a copy by the caller's thread is over when it returns.
FAILPOINT_EFFECTS = {
    "src/core/core.h": ("SY_EFFECT_", "UNIT_EFFECT_"),
    "src/client/machine.h": ("SY_MACHINE_", "CLIENT_EFFECT_"),
}
FAILPOINT_EFFECT_ENUM = re.compile(r"enum sy_(?:machine_)?effect_kind \{(.*?)\};", re.S)
FAILPOINT_NONE = {"UNIT_EFFECT_FENCE"}
FAILPOINT_FOLDERS = {"CLIENT": "client", "UNIT": "unit", "DIRECTORY": "directory"}

# Symbols that the libraries of base and core may leave undefined, beside their own sy_*.
BASE_SYMBOLS = set("""
memset memcpy memmove memcmp memchr strlen strnlen strcmp strncmp strchr strcspn
__memcpy_chk __memset_chk __memmove_chk __stack_chk_fail _GLOBAL_OFFSET_TABLE_ __cpu_model
__cpu_indicator_init __popcountdi2 __udivti3 __umodti3 __aarch64_have_lse_atomics
""".split())
ALLOCATION = set("""
malloc calloc realloc reallocarray free aligned_alloc posix_memalign strdup strndup
""".split())

IO_CALLS = set("""
clock_gettime clock_getres clock_nanosleep gettimeofday time clock nanosleep sleep usleep
localtime gmtime strftime socket socketpair bind listen accept accept4 connect send sendto
sendmsg recv recvfrom recvmsg shutdown setsockopt getsockopt poll ppoll select pselect eventfd
open openat creat close read write readv writev pread pwrite lseek fsync fdatasync ftruncate
fallocate mmap munmap mremap madvise mprotect unlink rename mkdir rmdir stat fstat lstat access
memfd_create shm_open shm_unlink fork vfork execve execvp kill waitpid signal sigaction pipe
pipe2 dup dup2 ioctl syscall fopen fdopen fclose fread fwrite fgets fputs fputc fgetc getline
getchar putchar puts printf fprintf vprintf vfprintf dprintf snprintf vsnprintf asprintf scanf
fscanf sscanf perror syslog getenv exit abort getpid gettid getrandom rand random srand
call_once
""".split())
IO_CALL_PREFIXES = re.compile(
    r"^(pthread|thrd|mtx|cnd|tss|sem|epoll|timerfd|timer|zmq|io_uring|inotify)_\w+$"
)

# Calls nobody makes, with what to use instead.
BANNED_CALLS = {
    "strcpy": "memcpy with a checked length",
    "strcat": "sy_format",
    "stpcpy": "memcpy",
    "strncpy": "memcpy with a checked length",
    "strncat": "sy_format",
    "sprintf": "snprintf or sy_format",
    "vsprintf": "vsnprintf or sy_format_list",
    "strtok": "strchr or strtok_r",
    "atoi": "sy_parse_u64",
    "atol": "sy_parse_u64",
    "atoll": "sy_parse_u64",
    "atof": "strtod with a checked end",
    "gets": "fgets",
    "alloca": "a buffer with a bound",
    "tmpnam": "mkstemp",
    "mktemp": "mkstemp",
}

# sy_fail and sy_format know these conversions only (fail.h).
FORMAT_CALLS = {"sy_fail": 3, "sy_format": 2}
FORMAT_CONVERSION = re.compile(r"%([-0]*)(\d*)(\.\*|\.\d+)?(hh|h|ll|l|z|j|t|L)?(.)", re.S)
FORMAT_KNOWN = {
    "s",
    "u",
    "d",
    "zu",
    "lu",
    "llu",
    "ld",
    "lld",
    "zd",
    "x",
    "lx",
    "llx",
    "zx",
    "c",
    "%",
}
FORMAT_MACROS = {
    "PRIu64": "lu",
    "PRIx64": "lx",
    "PRId64": "ld",
    "PRIu32": "u",
    "PRIx32": "x",
    "PRId32": "d",
}

SYSTEM_HEADERS = set("""
a.out aio aliases alloca ar argp argz arpa/inet assert byteswap complex cpio crypt ctype dirent
dlfcn elf endian envz err errno error execinfo fcntl features fenv float fmtmsg fnmatch
fpu_control fstab fts ftw gconv getopt glob gnu-versions grp gshadow iconv ieee754 ifaddrs
inttypes iso646 langinfo lastlog libgen libintl limits link locale malloc math mcheck memory
mntent monetary mqueue netdb nl_types nss obstack paths poll printf proc_service pthread pty
pwd re_comp regex regexp resolv sched search semaphore setjmp sgtty shadow signal spawn stab
stdalign stdarg stdatomic stdbool stdc-predef stddef stdint stdio stdio_ext stdlib stdnoreturn
string strings syscall sysexits syslog tar termio termios tgmath thread_db threads time ttyent
uchar ucontext ulimit unistd utime utmp utmpx values version wait wchar wctype wordexp zmq
zmq_utils msgpack jansson liburing cmocka
""".split())

# Written so that no pattern matches its own line.
TREE_WORDS = [
    (re.compile(r"(?<![\w.}])/(?:wor[k]|roo[t]|hom[e]/\w+)/"), "a path of one machine"),
    (re.compile(r"/tmp/sla[b](?![a-z])"), "a path of one machine"),
    (
        re.compile(
            r"\b(?:deb|archive|security|ports|registry|pypi|files)\.\w[\w-]*\.(?:org|com|net)\b"
        ),
        "a host of a package registry",
    ),
    (re.compile(r"\bissue #?[0-9]", re.I), "a number of the tracker"),
    (
        re.compile(r"\b(?i:(?:co-)?(?:authored|written|generated)[- ]by:?) [A-Z]"),
        "who or what wrote it",
    ),
]
LATER_WORDS = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b")
