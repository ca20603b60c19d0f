"""Rules over single values, and the schemas of those values: the larger half of `cel_cases`. Pure data."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["VALUES", "fields", "ruled"]

Data = dict[str, Any]

TEXT: Final[Data] = {"type": "string", "maxLength": 60}
INT: Final[Data] = {"type": "integer"}
NUMBER: Final[Data] = {"type": "number"}
PORT: Final[Data] = {"x-kubernetes-int-or-string": True, "maxLength": 20}
TEXTS: Final[Data] = {"type": "array", "maxItems": 6, "items": TEXT}
INTS: Final[Data] = {"type": "array", "maxItems": 6, "items": INT}
NUMBERS: Final[Data] = {"type": "array", "maxItems": 6, "items": NUMBER}
SET: Final[Data] = {"type": "array", "maxItems": 6, "items": TEXT, "x-kubernetes-list-type": "set"}
LABELS: Final[Data] = {"type": "object", "maxProperties": 6, "additionalProperties": TEXT}
POINT: Final[Data] = {"type": "object", "properties": {"x": INT, "y": {**INT, "nullable": True}}}
POINTS: Final[Data] = {
    "type": "array",
    "maxItems": 6,
    "items": {**POINT, "required": ["x"]},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["x"],
}
WHEN: Final[Data] = {"type": "string", "format": "date-time"}
DAY: Final[Data] = {"type": "string", "format": "date"}
SPAN: Final[Data] = {"type": "string", "format": "duration"}
BYTES: Final[Data] = {"type": "string", "format": "byte", "maxLength": 40}


def ruled(schema: Data, *rules: str | Data) -> Data:
    """Return a schema with rules."""
    return {**schema, "x-kubernetes-validations": [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]}


def fields(**properties: Data) -> Data:
    """Return the schema of an object."""
    return {
        "type": "object",
        "properties": {name.replace("_DASH_", "-"): schema for name, schema in properties.items()},
    }


VALUES: Final[list[tuple[Data, str, list[Any]]]] = [
    # the language
    (INT, "self > 1 && self < 5", [0, 3, 9]),
    (INT, "10 / self == 2", [5, 0, 3]),
    (INT, "10 % self == 0", [5, 0, 3]),
    (INT, "self + 9223372036854775807 > 0", [0, 1]),
    (INT, "self * 9223372036854775807 > 0", [1, 2]),
    (INT, "-self < 0", [1, -1]),
    (INT, "self < 1.5", [1, 2]),
    (INT, "string(self) == '7'", [7, 8]),
    (INT, "double(self) / 2.0 == 1.5", [3, 4]),
    (NUMBER, "self / 2.0 == 0.5", [1, 1.5]),
    (NUMBER, "self == 1.0", [1, 1.0, 2]),
    (NUMBER, "string(self) == '1.5'", [1.5, 1]),
    (NUMBER, "int(self) == 1", [1.9, 2.1]),
    ({"type": "boolean"}, "self", [True, False]),
    (TEXT, "self == 'a' ? true : self == 'b'", ["a", "b", "c"]),
    (TEXT, "self.size() > 2", ["äöü", "ab"]),
    (TEXT, "self.matches('^[a-z]+$')", ["abc", "aBc", ""]),
    (TEXT, "self.startsWith('a') || self.endsWith('z') || self.contains('--')", ["ab", "xz", "a--", "q"]),
    (TEXT, "int(self) > 5", ["7", "3", "x", ""]),
    (TEXT, "double(self) > 5.0", ["7.5", "3", "x"]),
    (TEXT, "bool(self)", ["true", "false", "x"]),
    (
        TEXT,
        "timestamp(self) > timestamp('2020-01-01T00:00:00Z')",
        ["2021-01-01T00:00:00Z", "2019-01-01T00:00:00Z", "x"],
    ),
    (TEXT, "duration(self) > duration('1h')", ["2h", "3s", "x"]),
    (TEXT, "self < 'b'", ["a", "c"]),
    (TEXT, "self in ['a', 'b']", ["a", "c"]),
    (TEXT, "{'a': 1}[self] == 1", ["a", "c"]),
    (PORT, "type(self) == int ? self > 0 : self == 'http'", [1, 0, "http", "x"]),
    (PORT, "self > 0", [1, "x"]),
    (PORT, "self.startsWith('h')", ["http", 5]),
    (PORT, "self == 80 || self == '80'", [80, "80", "x"]),
    (PORT, "int(self) == 80", [80, "80", "x"]),
    (PORT, "self in [80, 443]", [80, 81, "x"]),
    (PORT, "string(self) == '80'", [80, "80", "x"]),
    (INTS, "self[0] == 1", [[1], [2], []]),
    (INTS, "self.all(x, x > 0)", [[1, 2], [0], []]),
    (INTS, "self.exists(x, 10 / x == 5)", [[2], [0, 2], [0], [1]]),
    (INTS, "self.exists_one(x, x > 1)", [[2], [2, 3], []]),
    (INTS, "self.map(x, x * 2) == [2, 4]", [[1, 2], [2]]),
    (INTS, "self.map(x, x > 1, x * 2) == [4]", [[1, 2], [2, 3]]),
    (INTS, "self.filter(x, x > 1).size() == 1", [[1, 2], [2, 3]]),
    (INTS, "self + [3] == [1, 3]", [[1], [2]]),
    (LABELS, "self.all(k, k.startsWith('a') && self[k] == 'x')", [{"a": "x"}, {"a": "y"}, {"b": "x"}]),
    (LABELS, "'a' in self && self.a == 'x'", [{"a": "x"}, {"a": "y"}, {}]),
    (LABELS, "self['a-b'] == 'x'", [{"a-b": "x"}, {}]),
    (LABELS, "has(self.a) && size(self) == 1", [{"a": ""}, {"b": ""}]),
    (LABELS, "self == {'a': 'x'}", [{"a": "x"}, {"a": "y"}]),
    (POINT, "has(self.y) ? self.y > 0 : self.x > 0", [{"x": 1}, {"x": 0}, {"x": 0, "y": 1}, {"x": 1, "y": None}, {}]),
    (POINT, "!has(self.x) || self.x == 1 || self.y == 1", [{}, {"x": 1}, {"x": 2}, {"x": 2, "y": None}]),
    (POINTS, "self.map(p, p.x) == [1, 2]", [[{"x": 1}, {"x": 2}], [{"x": 1}]]),
    (POINTS, "self.exists(p, p.x == 1 && has(p.y) && p.y == 2)", [[{"x": 1, "y": 2}], [{"x": 1}]]),
    # formats
    (WHEN, "self.getFullYear() == 2024 && self.getMonth() == 1", ["2024-02-03T04:05:06Z", "2025-02-03T04:05:06Z"]),
    (WHEN, "self.getDayOfMonth() == 2 && self.getDate() == 3", ["2024-02-03T04:05:06Z", "2024-02-04T04:05:06Z"]),
    (
        WHEN,
        "self + duration('1h') > timestamp('2024-02-03T05:00:00Z')",
        ["2024-02-03T04:05:06Z", "2024-02-03T03:05:06Z"],
    ),
    (WHEN, "self.getHours('+02:00') == 6", ["2024-02-03T04:05:06Z", "2024-02-03T05:05:06Z"]),
    (WHEN, "string(self) == '2024-02-03T04:05:06.5Z'", ["2024-02-03T04:05:06.500Z", "2024-02-03T04:05:06Z"]),
    (DAY, "self.getDayOfWeek() == 6", ["2024-02-03", "2024-02-04"]),
    (SPAN, "self > duration('90m')", ["2h", "1h", "2h30m"]),
    (SPAN, "self.getMinutes() == 90 && string(self) == '5400s'", ["90m", "1h", "5400s"]),
    (SPAN, "string(self) == '1.5s' || self == duration('2s')", ["1500ms", "2s", "1s", "1 sec", "3 days"]),
    (
        fields(t=WHEN, s=SPAN),
        "has(self.t) && self.t < timestamp('2024-01-01T00:00:00Z') && self.?s.orValue(duration('1s')) > duration('1s')",
        [{"t": "2023-01-01T00:00:00Z", "s": "2s"}, {"t": "2023-01-01T00:00:00Z"}, {"t": "2025-01-01T00:00:00Z"}, {}],
    ),
    (
        {"type": "array", "maxItems": 3, "items": WHEN},
        "self.all(t, t.getFullYear() == 2024) && self.max() > self.min() && self[0] < self[1]",
        [
            ["2024-01-01T00:00:00Z", "2024-01-01T01:00:00+01:00"],
            ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"],
            ["2023-01-01T00:00:00Z"],
        ],
    ),
    (
        {"type": "array", "maxItems": 3, "items": SPAN},
        "self.sum() == duration('3s') && self.isSorted() && duration('1s') in self",
        [["1s", "2s"], ["2s", "1s"], ["3s"]],
    ),
    (BYTES, "self == b'abc' || self.size() == 1", ["YWJj", "YQ==", "YWI="]),
    # strings
    (TEXT, "self.lowerAscii() == 'abc' && self.upperAscii() == 'ABC'", ["aBc", "abd"]),
    (TEXT, "self.replace('a', 'b', 1) == 'ba'", ["aa", "ba", "ab"]),
    (TEXT, "self.split(',') == ['a', 'b'] || self.split(',', 2) == ['x', 'y,z']", ["a,b", "x,y,z", "a"]),
    ({**TEXTS, "maxItems": 2}, "self.join('+') == 'a+b' || self.join() == 'z'", [["a", "b"], ["z"], ["y"]]),
    (TEXT, "self.substring(1, 2) == 'b'", ["abc", "aab", "a"]),
    (TEXT, "self.substring(2) == 'c' || self.substring(2, 1) == 'c'", ["abc", "abd", "a"]),
    (TEXT, "self.indexOf('b', 5) == -1 || self.lastIndexOf('b', 0) == -1", ["abc", "abcdefg"]),
    (TEXT, "self.matches('^[[:alpha:]]+$') || self.find('[[:digit:]]{2}') == '12'", ["abc", "a12", "a1"]),
    (TEXT, "self.split('') == ['a', 'b'] || self.replace('', '-') == '-a-'", ["ab", "a", "c"]),
    (TEXT, "self.trim().size() == 1 ? self.lowerAscii() == 'ä' : self.upperAscii() == 'ÄB'", ["ä", "Äb", "Ä"]),
    (TEXT, "'%.2f|%x|%b|%e'.format([1.239, 255, 5, 1234.5]) == self", ["1.24|ff|101|1.234500\u00d710⁰³", "x"]),
    (
        TEXT,
        "'%s %s %s %s'.format([[1, 2], {'a': true}, null, 1.5]) == self",
        ["[1, 2] {a: true} null 1.5", '[1, 2] {"a":true} null 1.5', "x"],
    ),
    (
        TEXT,
        "'%s'.format([duration('90s')]) == self || '%f'.format([1234.5]) == self || '%X'.format(['a']) == self",
        ["90s", "1,234.500000", "61", "x"],
    ),
    (TEXT, "'%s %s %s'.format([1234567.5, 0.000001, 100000.0]) == self", ["1.2345675e+06 1e-06 100000", "x"]),
    (TEXT, "'%s %s%%'.format([[1.0, 2.5], 'a%']) == self", ["[1.000000, 2.500000] a%%", "x"]),
    (TEXT, "self.charAt(1) == 'b'", ["abc", "a", ""]),
    (TEXT, "self.indexOf('b') == 1 && self.lastIndexOf('b') == 2", ["abb", "ab"]),
    (TEXT, "self.trim() == 'a'", [" a ", "a b"]),
    (TEXT, "'%s-%d'.format([self, 5]) == 'a-5'", ["a"]),
    (TEXT, "'%s has %s'.format([self, self]) == 'a has a'", ["a", "b"]),
    (TEXT, "strings.quote(self) == '\"a\"'", ["a", 'a"']),
    (INTS, "'%d'.format([self.size()]) == '1'", [[1], []]),
    # lists and sets
    (INTS, "self.isSorted()", [[1, 2], [2, 1], []]),
    (INTS, "self.sum() == 3 && self.max() == 2 && self.min() == 1", [[1, 2], [3], []]),
    (NUMBERS, "self.sum() == 1.5", [[1, 0.5], [1], []]),
    (TEXTS, "self.indexOf('a') == 1 && self.lastIndexOf('a') == 2", [["b", "a", "a"], ["a"]]),
    (TEXTS, "self.isSorted() && self.max() == 'b'", [["a", "b"], ["b", "a"]]),
    (
        TEXTS,
        "sets.contains(self, ['a']) && !sets.intersects(self, ['z']) && sets.equivalent(self, self)",
        [["a"], ["a", "z"], []],
    ),
    (INTS, "self.slice(0, 1) == [1]", [[1, 2], [2], []]),
    (INTS, "self.sort() == [1, 2] && self.reverse() == [1, 2]", [[2, 1], [1, 2]]),
    (INTS, "self.distinct() == [1]", [[1, 1], [1, 2]]),
    (INTS, "[self, [3]].flatten() == [1, 3]", [[1], [2]]),
    (INTS, "lists.range(3) == self", [[0, 1, 2], [5]]),
    (INTS, "self.sortBy(x, -x) == [2, 1]", [[1, 2], [1]]),
    (INTS, "self.first().orValue(0) == 1 && self.last().value() == 2", [[1, 2], [1], []]),
    (SET, "self == ['a', 'b']", [["b", "a"], ["a", "c"], ["a"]]),
    (SET, "self + ['a', 'c'] == ['a', 'b', 'c']", [["a", "b"], ["b", "a"], ["b"]]),
    (POINTS, "(self + self).size() == 1 && self == self", [[{"x": 1}], [{"x": 1}, {"x": 2}]]),
    # two variables, optionals
    (INTS, "self.all(i, x, i < x)", [[1, 2], [0], []]),
    (INTS, "self.exists(i, x, i == x) && self.existsOne(i, x, i == x)", [[0, 5], [0, 1], [5]]),
    (INTS, "self.exists_one(i, x, i == x)", [[0, 5], [0, 1], [5]]),
    (INTS, "self.transformList(i, x, x > 1, i + x) == [3]", [[1, 2], [1, 3]]),
    (LABELS, "self.transformMap(k, v, k + v) == {'a': 'ax'}", [{"a": "x"}, {"a": "y"}]),
    (LABELS, "self.transformMapEntry(k, v, {v: k}) == {'x': 'a'}", [{"a": "x"}, {"a": "y"}, {"a": "x", "b": "x"}]),
    (POINT, "self.?x.orValue(5) == 5", [{}, {"x": 5}, {"x": 4}]),
    (POINT, "self.?x.optMap(v, v + 1).hasValue()", [{}, {"x": 5}]),
    (POINT, "self.?x.value() > 0", [{"x": 1}, {}]),
    (LABELS, "self[?'a'].orValue('z') == 'z'", [{}, {"a": "z"}, {"a": "y"}]),
    (INTS, "self[?0].hasValue()", [[1], []]),
    # Kubernetes
    (TEXT, "quantity(self).isGreaterThan(quantity('1Gi'))", ["2Gi", "1024Mi", "1G", "abc", "", "1.5.5", "1Zi"]),
    (TEXT, "isQuantity(self)", ["100m", "1.3", "x", "1e3", "1E", "+5", ".5", "1 "]),
    (
        TEXT,
        "quantity(self).isInteger()",
        ["1", "1000m", "1.0", "1k", "1.5k", "0.5", "1e3", "9Ei", "10", "1Ki", "1.5Ki", "0"],
    ),
    (TEXT, "quantity(self).asInteger() == 2000", ["2k", "2000", "0.5", "2000m"]),
    (TEXT, "quantity(self).asApproximateFloat() == 0.5", ["500m", "0.5", "1"]),
    (TEXT, "quantity(self).add(quantity('500m')).compareTo(quantity('1')) == 0", ["500m", "1"]),
    (TEXT, "quantity(self).sub(1) == quantity('1')", ["2", "2000m", "3"]),
    (TEXT, "sign(quantity(self)) == -1", ["-1", "0", "1"]),
    (
        TEXT,
        "isURL(self)",
        ["https://a.example.com:80/b", "/abc", "../a", "a.example.com", "", "http://[::1]:80/", "http://a b/"],
    ),
    (TEXT, "url(self).getHost() == 'a.example.com:80'", ["https://a.example.com:80/b", "https://b.example.com", "x"]),
    (TEXT, "url(self).getHostname() == '::1' && url(self).getPort() == '80'", ["http://[::1]:80/", "http://[::1]/"]),
    (
        TEXT,
        "url(self).getScheme() == 'https' && url(self).getEscapedPath() == '/a%20b'",
        ["https://h/a b", "https://h/a%20b", "/a"],
    ),
    (TEXT, "url(self).getQuery() == {'k': ['a', 'b'], 'l': ['']}", ["https://h/?k=a&k=b&l=", "https://h/?k=a"]),
    (TEXT, "url(self).getHost() == ''", ["", "a", "http://a:x/", "http://a/%zz", ":a", "http://[::1/", "1:a", "/a"]),
    (
        TEXT,
        "isIP(self)",
        ["10.0.0.1", "::1", "010.0.0.1", "1.2.3", "::ffff:1.2.3.4", "fe80::1%eth0", "x", "1.2.3.4.5", "256.1.1.1"],
    ),
    (
        TEXT,
        "ip(self).family() == 4",
        ["10.0.0.1", "::1", "x", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.1.1.1", "1.2.a.4", "::ffff:1.2.3.4"],
    ),
    (TEXT, "ip(self).family() == 6", ["fe80::1%eth0", "::1", "::g", "1:2:3", "1..2.3"]),
    (TEXT, "ip.isCanonical(self)", ["::1", "::0001", "10.0.0.1", "x"]),
    (TEXT, "ip(self).isLoopback() || ip(self).isUnspecified()", ["127.0.0.2", "0.0.0.0", "10.0.0.1"]),
    (
        TEXT,
        "ip(self).isGlobalUnicast()",
        ["10.0.0.1", "8.8.8.8", "255.255.255.255", "224.0.0.1", "169.254.0.1", "2001::1"],
    ),
    (
        TEXT,
        "ip(self).isLinkLocalUnicast() || ip(self).isLinkLocalMulticast()",
        ["169.254.0.1", "224.0.0.9", "ff02::1", "ff05::1", "1.1.1.1"],
    ),
    (TEXT, "string(ip(self)) == '::1'", ["0::1", "::2"]),
    (
        TEXT,
        "isCIDR(self)",
        ["10.0.0.0/8", "10.0.0.1/8", "10.0.0.0", "10.0.0.0/33", "::/0", "::ffff:1.2.3.4/128", "10.0.0.0/08"],
    ),
    (
        TEXT,
        "cidr(self).containsIP('10.1.1.1') && cidr(self).containsIP(ip('10.0.0.9'))",
        ["10.0.0.0/8", "10.1.0.0/16", "::/0", "x"],
    ),
    (
        TEXT,
        "cidr(self).containsCIDR('10.1.0.0/16')",
        ["10.0.0.0/8", "10.1.0.0/24", "11.0.0.0/8", "10.0.0.0", "10.0.0.0/99", "10.0.0.0/x"],
    ),
    (
        TEXT,
        "cidr(self).prefixLength() == 8 && string(cidr(self).masked()) == '10.0.0.0/8'",
        ["10.1.2.3/8", "10.0.0.0/16"],
    ),
    (TEXT, "string(cidr(self).ip()) == '10.1.2.3'", ["10.1.2.3/8", "10.0.0.0/16"]),
    (TEXT, "self.find('[0-9]+') == '12'", ["ab12cd34", "abc"]),
    (TEXT, "self.findAll('[0-9]+') == ['12', '34'] && self.findAll('[0-9]+', 1) == ['12']", ["ab12cd34", "abc"]),
    (TEXT, "self.findAll('a*') == ['aa', '']", ["aab", "b"]),
    (TEXT, "!format.dns1123Label().validate(self).hasValue()", ["abc", "A", "a.b", ""]),
    (TEXT, "!format.qualifiedName().validate(self).hasValue()", ["example.com/a", "a/b/c", "_"]),
    (TEXT, "!format.named('dns1123Subdomain').value().validate(self).hasValue()", ["a.b", "A"]),
    (TEXT, "!format.dns1035LabelPrefix().validate(self).hasValue()", ["abc-", "1a", "a"]),
    (TEXT, "!format.labelValue().validate(self).hasValue()", ["a_b", "", "a b"]),
    (TEXT, "!format.uri().validate(self).hasValue()", ["https://a", "a"]),
    (TEXT, "!format.uuid().validate(self).hasValue()", ["123e4567-e89b-12d3-a456-426614174000", "x"]),
    (TEXT, "!format.date().validate(self).hasValue()", ["2024-01-01", "2024-1-1"]),
    (TEXT, "!format.datetime().validate(self).hasValue()", ["2024-01-01T00:00:00Z", "2024-01-01"]),
    (TEXT, "!format.byte().validate(self).hasValue()", ["YQ==", "Y", ""]),
    (TEXT, "format.named(self).hasValue()", ["uri", "nope"]),
    (TEXT, "isSemver(self)", ["1.2.3", "1.2", "v1.2.3", "1.02.3", "1.2.3-rc.1+b", "a.b.c"]),
    (TEXT, "isSemver(self, true)", ["1.2.3", "1.2", "v1.2.3", "v1", "1.02.3", "1-a", "x"]),
    (
        TEXT,
        "semver(self).isLessThan(semver('1.2.3'))",
        ["1.2.2", "1.2.3-rc.1", "1.2.3", "1.10.0", "x", "", "1.2.x", "1.2.03"],
    ),
    (TEXT, "semver(self).compareTo(semver('1.2.3')) == 0", ["1.2.3+b", "1.2.4"]),
    (
        TEXT,
        "semver(self, true).major() == 1 && semver(self, true).minor() == 2 && semver(self, true).patch() == 0",
        ["v1.2", "1.3"],
    ),
]
