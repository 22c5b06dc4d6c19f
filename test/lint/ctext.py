"""Just enough of C's grammar for lint: comments, strings, functions, includes, calls."""

import re

TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M | re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.M)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    return TOKEN.sub(lambda m: blank(m.group()) if m.group().startswith("/") else m.group(), text)


def code_only(text):
    """Comments and the insides of strings become blanks; lines and columns stay."""

    def one(match):
        token = match.group()
        return blank(token) if token.startswith("/") else token[0] + blank(token[1:-1]) + token[-1]

    return TOKEN.sub(one, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def includes(text):
    """(line, name, in quotes) of each include."""
    for match in INCLUDE.finditer(without_comments(text)):
        yield line_of(text, match.start()), match.group(1) or match.group(2), bool(match.group(1))


def functions(text):
    """(name, offset of the opening brace, offset of the closing one) of each function body."""
    code = DIRECTIVE.sub(lambda m: blank(m.group()), code_only(text))
    depth, start, body, found = 0, 0, None, []
    for match in re.finditer(r"[{};]", code):
        at, char = match.start(), match.group()
        if char == "{":
            if depth == 0:
                head = code[start:at].rstrip()
                if re.search(r'extern\s*"\s*"$', head):
                    start = at + 1
                    continue
                if head.endswith(")") and not re.search(r"=[^=]*$", head):
                    name = re.search(
                        r"(\w+)\s*\((?!\()",
                        re.sub(r"__attribute__\s*\(\(.*?\)\)", "", head, flags=re.S),
                    )
                    body = (name.group(1) if name else "?", at)
            depth += 1
        elif char == "}":
            if depth == 0:
                start = at + 1
                continue
            depth -= 1
            if depth == 0:
                if body:
                    found.append((*body, at))
                body, start = None, at + 1
        elif depth == 0:
            start = at + 1
    return found


def calls(text, names):
    """(line, name, arguments as text with strings kept) of each call of one of the names."""
    code, kept = code_only(text), without_comments(text)
    for match in re.finditer(r"(?<![\w.>])(\w+)\s*\(", code):
        if match.group(1) in names:
            yield line_of(text, match.start()), match.group(1), arguments(code, kept, match.end())


def arguments(code, kept, at):
    depth, begin, parts = 0, at, []
    for offset in range(at, len(code)):
        char = code[offset]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                parts.append(kept[begin:offset].strip())
                return parts
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(kept[begin:offset].strip())
            begin = offset + 1
    return parts
