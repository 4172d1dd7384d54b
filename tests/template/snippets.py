"""Small templates, a line for each thing that templates do. VARIABLES is what they may use."""

VARIABLES = {
    "user": {"name": "Ada", "age": 36, "tags": ["b", "A", "c"], "items": "own", "nested": {"a": {"b": [1, 2, 3]}}},
    "words": ["banana", "Apple", "cherry", "apple"],
    "numbers": [3, 1, 2, 10, -4],
    "reals": [1.5, 2.0, 0.1, 1e16, 1e-5, 123456789.125],
    "text": "  Hello, Wörld!\n\tLine two \u2028 end  ",
    "html": "<b>\"Tom\" & 'Jerry'</b>",
    "emoji": "a😀é日本",
    "empty": "", "nothing": None, "yes": True, "no": False, "zero": 0,
    "people": [{"name": "Bo", "age": 5, "ok": True}, {"name": "al", "age": 7}, {"name": "Cy", "age": 5, "ok": False}],
    "mapping": {"z": 1, "B": 2, "a": {"x": None}, "C": [True, 1.0]},
    "big": 12345678901234567890,
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}],
}

EXPRESSIONS = r"""
1
-1
+1
1 + 2 * 3
(1 + 2) * 3
7 / 2
6 / 2
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 % 2
-7.5 // 2
2 ** 10
2 ** -1
-2 ** 2
2 ** 3 ** 2
1 / 3
0.1 + 0.2
1e100
1e16
1e15
123456789012345678
1.0
100000.0
1e-4
1e-5
5e-324
1.7976931348623157e308
1_000 + 0x1F + 0o17 + 0b11
1_0.5e1_0
1.5e3
0
00
9223372036854775807
9223372036854775808
99999999999999999999
-9223372036854775808
1 / 0
1 // 0
1 % 0
1.5 % 0
true + true
true * 3
not true
not zero
not 0 == 1
not nothing is none
1 == 1.0
1 == true
0 == false
'1' == 1
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2 != 1
1 < 2 == true
'a' < 'b'
'B' < 'a'
'é' > 'z'
[1, 2] < [1, 3]
[1, 2] == [1, 2]
(1, 2) == [1, 2]
{'a': 1} == {'a': 1.0}
none == none
none is none
nothing < 1
'a' < 1
1 in [1, 2]
1 not in [1, 2]
'ell' in 'hello'
'a' in {'a': 1}
1 in 'abc'
'' in 'abc'
nothing in [none]
1 in nothing
missing in [1]
1 in missing
true and 'x'
'' or 'y'
0 and missing.x
1 or missing.x
none or false or 'z'
1 if true else 2
1 if false else 2
1 if false
'a' if no else 'b' if no else 'c'
(1 if false) is defined
'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1]
1 ~ 2 + 3
1 + 2 ~ 3
'a' 'b' "c"
'a' + 'b'
'a' + 1
1 + 'a'
'ab' * 3
3 * 'ab'
'ab' * -1
[1] * 2
(1,) * 2
[1] + [2]
[1] + (2,)
'a' - 'b'
-'a'
'x' is string and 1 is number
[]
[1, 'a', none, true, 1.0, [2], (3,), {}]
[1, 2,]
()
(1,)
(1, 2)
1, 2
{}
{'a': 1, 'b': [1, {'c': none}]}
{'a': 1, 'a': 2, 'b': 3}
{1: 'a', 1.0: 'b', true: 'c'}
{'a': 1,}
{none: 1, (1, 2): 3}
{[]: 1}
"it's"
'say "hi"'
'both \' and "'
['it\'s', 'say "hi"', 'both \' and "', 'tab\t nl\n bs\\ \x07 é \u200b \U0001f600 \xa0']
'\x41\u00e9\U0001F600\101\0end'
'\q \' \" \\ \a\b\f\v\r'|tojson
'line\
continued'
'\é'
'\u00zz'
user.name
user['name']
user.missing
user['missing']
user.missing.deep
user['missing']['deep']
user['items']
user.items is callable
user.keys is defined
user.nested.a.b[1]
user['nested']['a']['b'][-1]
user.nested.a.b.1
user.nested.a.b.9
user.tags[9]
user.tags[-4]
user.tags['0']
user.tags.foo
user.name.foo
user.name['foo']
user.name[0]
user.name[-1]
user.name[10]
user.age.foo
user.age.real
user[0]
user[none]
user[[]]
nothing.foo
nothing['foo']
nothing[0]
zero.foo
missing
missing.foo
missing['foo']
missing[0]
missing[1:]
missing()
missing + 1
1 + missing
missing ~ 'x'
missing == none
missing == missing2
missing != 1
missing < 1
missing and 1
missing or 1
not missing
-missing
[missing]
{'a': missing}
missing is defined
missing is undefined
missing is none
missing is string
missing is mapping
missing is iterable
missing is sequence
missing is number
missing is callable
missing is boolean
missing is lower
missing is odd
missing is in []
missing|length
missing|upper
missing|trim
missing|default('d')
missing|d
missing.foo|default('d')
user.missing|default('d')
missing|int
missing|float
missing|abs
missing|list
missing|join(',')
missing|first
missing|last
missing|string
missing|tojson
missing|items|list
missing|dictsort
missing|sort
missing|map('upper')|list
missing|select|list
missing|reverse|list
missing|replace('a', 'b')
missing|e
missing|safe
missing|sum
missing|min
missing|unique|list
missing|batch(2)|list
missing|round
missing|indent
missing|title
missing|capitalize
missing|format(1)
missing|truncate
missing|wordcount
missing|center(5)
nothing|default('d')
nothing|default('d', true)
''|default('d')
''|default('d', true)
0|default(5, boolean=true)
user.__class__
user.__class__.__name__
''.__class__.__mro__
user._private
[].sort is defined
{}.update is defined
user.clear
range(3)
range(1, 4)
range(10, 0, -3)
range(5)|list
range(1, 10, 4)|list
range(10, 0, -3)|list
range(3)[1]
range(10)[2:8:2]|list
range(10)[::-1]|list
range(5)|length
3 in range(5)
range(0)|list
range(3, 0)|list
range(0, 3, 0)
range('a')
range(100001)|length
range(100000)|length
range()
range(1.5)
numbers[1:3]
numbers[:2]
numbers[2:]
numbers[:]
numbers[::2]
numbers[::-1]
numbers[::-2]
numbers[-2:]
numbers[:-2]
numbers[-1:0:-1]
numbers[10:]
numbers[-10:2]
numbers[3:1]
numbers[3:1:-1]
numbers[1:3:0]
numbers['a':]
numbers[none:2]
numbers[true:]
(1, 2, 3)[1:]
'hello'[1:3]
'hello'[::-1]
'hello'[::2]
'hello'[-3:]
emoji[1:3]
emoji[::-1]
emoji[::2]
emoji[-2:]
emoji[1]
emoji[-1]
emoji|length
emoji[:100]
user[1:]
nothing[:1]
numbers[1:][0]
text|trim
text|trim|length
text.strip()
text.lstrip()
text.rstrip()
'xxhixx'.strip('x')
'xyhixy'.strip('yx')
'xxhixx'.lstrip('x')
'xxhixx'.rstrip('x')
'xxhixx'|trim('x')
'hi'.strip(none)
'hi'.strip(1)
'\x1c\x1d a \x85\u3000'.strip()|tojson
'\u200b a'.strip()|tojson
'ééaé'.strip('é')
'abc'.upper()
'ABC'.lower()
'straße ŉ ﬁ'.upper()
'ÀÉ İ ΑΣ ΣΑ Σ'.lower()
'ΟΔΥΣΣΕΥΣ ΣΑΣ.'|lower
'hello wORLD it\'s'.title()
'hello wORLD it\'s 3rd'|title
'foo-bar (baz) [qux] {a} <b>'|title
'hELLO wORLD'|capitalize
'éCOLE'.capitalize()
'ﬁne ǆ'.capitalize()
'ǆabc ß'.title()
'Hello'.swapcase()
'Straße'.casefold()
''|upper
5|upper
none|upper
true|lower
[1]|upper
'a,b,c'.split(',')
'a,b,c'.split(',', 1)
'a,b,c'.split(',', maxsplit=1)
'a,b,c'.split(sep=',', maxsplit=0)
'a,b,c'.rsplit(',', 1)
'a,b,c'.rsplit(',')
' a  b c '.split()
' a  b c '.split(none, 1)
' a  b c '.rsplit(none, 1)
' a  b c '.split(' ')
''.split()
''.split(',')
'abc'.split('')
'abc'.split(1)
'a<x>b<x>c'.split('<x>')[-1]
'a\u3000b\x1cc'.split()
'aXbXc'.partition('X')
'aXbXc'.rpartition('X')
'abc'.partition('X')
'abc'.rpartition('X')
'a\nb\r\nc\rd\x0be\x85f\u2028g'.splitlines()
'a\nb\n'.splitlines(true)
'a\n\nb'.splitlines(keepends=false)
''.splitlines()
'hello'.startswith('he')
'hello'.startswith(('x', 'he'))
'hello'.startswith('l', 2)
'hello'.startswith('l', 2, 3)
'hello'.startswith('', 9)
'hello'.endswith('lo')
'hello'.endswith(('x', 'lo'))
'hello'.endswith('l', 0, 4)
'hello'.startswith(1)
'hello'.startswith(['he'])
'hello'.replace('l', 'L')
'hello'.replace('l', 'L', 1)
'hello'.replace('', '-')
'hello'.replace('', '-', 2)
''.replace('', 'x')
'héé'.replace('', '-')
'aaa'.replace('aa', 'b')
'hello'.replace('l')
'hello'|replace('l', 'L')
'hello'|replace('l', 'L', 1)
'hello'|replace('l', 1)
'a.b'|replace('.', '')
12321|replace('2', 'x')
none|replace('N', 'n')
'hello'.find('l')
'hello'.find('z')
'hello'.rfind('l')
'hello'.index('l')
'hello'.index('z')
'hello'.find('l', 3)
'hello'.find('', 5)
'hello'.find('', 6)
'日本語'.find('語')
'日本語'.rfind('語', -1)
'hello'.count('l')
'aaaa'.count('aa')
'abc'.count('')
'a'.join(['x', 'y'])
', '.join([])
','.join('abc')
','.join([1, 2])
','.join({'a': 1, 'b': 2})
'abc'.center(9)
'abc'.center(8)
'ab'.center(7, '*')
'abc'.ljust(6, '.')
'abc'.rjust(6, '.')
'42'.zfill(5)
'-42'.zfill(5)
'+é'.zfill(5)
'abc'|center(9)
'abcd'|center(9)
'é'|center(4)
'a\tb\n\tc'.expandtabs(4)
'a\tb'.expandtabs()
'prefix-x'.removeprefix('prefix-')
'x-suffix'.removesuffix('-suffix')
'abc'.removeprefix('z')
'abc'.isalpha()
'abc1'.isalnum()
'123'.isdigit()
'²'.isdigit()
'²'.isdecimal()
'½'.isnumeric()
' \t'.isspace()
''.isspace()
'ABC'.isupper()
'abc1'.islower()
'Hello World'.istitle()
'Hello world'.istitle()
'abc'.isascii()
'é'.isascii()
''.isascii()
'a\n'.isprintable()
'日本'.isalpha()
'{} {}'.format(1, 'a')
'{0} {1} {0}'.format(1, 'a')
'{a} {b}'.format(a=1, b=[1])
'{a.name} {a[name]} {b[0]}'.format(a=user, b=[5])
'{{}} {}'.format(1)
'{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c')
'{:*^7}'.format('x')
'{:05d} {:+d} {:x} {:X} {:b} {:o} {:#x}'.format(42, 42, 255, 255, 5, 8, 255)
'{:.2f} {:10.3f} {:e} {:g} {:%}'.format(3.14159, 2.5, 12345.678, 0.0001, 0.25)
'{:,} {:_} {:,.2f}'.format(1234567, 1234567, 1234567.891)
'{!r} {!s}'.format('a', 'b')
'{:.3}'.format('abcdef')
'{:5}|{:<5}|'.format(1, 1)
'{:.3} {:.3} {:.3} {:.1}'.format(1.0, 123456.0, 0.00001234, 10.0)
'{:08.3f} {:+.1e} {: d}'.format(-3.14159, 1234.5, 5)
'{:08,d}'.format(1234)
'{} {}'.format(1)
'{0} {}'.format(1, 2)
'{x}'.format(y=1)
'{'.format()
'}'.format()
'{:d}'.format('a')
'{:s}'.format(1)
'{:>{w}}'.format('a', w=4)
'{} {} {}'.format(none, true, 1.0)
'{:5}'.format(none)
'{:c}'.format(65)
'{:5}|{:d}'.format(true, true)
'{0.__class__}'.format(user)
'%s and %s' % ('a', 1)
'%d %i' % (1, 2.9)
'%5d|%-5d|%05d|%+d|% d' % (1, 2, 3, 4, 5)
'%x %X %o %#x %#o' % (255, 255, 8, 255, 8)
'%.2f %10.2f %-8.1f| %e %g %G' % (3.14159, 2.5, 1.25, 12345.678, 1e-10, 1e20)
'%s' % 'only'
'%s' % [1, 2]
'%s' % none
'%s %%' % 5
'%(a)s %(b)d' % {'a': 1, 'b': 2}
'%(a)s' % {'b': 1}
'%r %r' % ('a', 1)
'%c%c' % (65, 'b')
'%.2s|%5s|%-5s|' % ('abc', 'a', 'b')
'%*d|%-*d|' % (5, 1, 4, 2)
'%s' % (1, 2)
'%s %s' % 'a'
'%d' % 'a'
'%y' % 1
'abc' % 1
'abc' % {}
'abc' % ()
'%s' % missing
'%d' % true
'%#.3g %#g' % (1.0, 2.5)
'%.0f %.0f %.0f' % (0.5, 1.5, 2.5)
'%s %s'|format('a', 'b')
'%(x)s'|format(x=1)
'%s'|format(1, x=2)
user.get('name')
user.get('missing')
user.get('missing', 'd')
user.get('items')
user.get()
user.get('a', 'b', 'c')
user.get(key='name')
user.keys()|list
user.values()|list
mapping.items()
mapping.items()|list
mapping.keys()
mapping.values()
mapping.items()[0]
mapping.items()|length
mapping.items() is sequence
mapping.items() is iterable
mapping.items() is mapping
'z' in mapping.keys()
1 in mapping.values()
mapping.copy() == mapping
mapping|items|list
mapping|dictsort
mapping|dictsort(true)
mapping|dictsort(reverse=true)
{'a': 2, 'b': 1}|dictsort(by='value')
{'a': 2, 'b': 1}|dictsort(false, 'value', true)
{'a': 2}|dictsort(by='x')
mapping|dictsort(by='value')
{'B': 1, 'a': 2, 'b': 3, 'A': 4}|dictsort
{1: 2, 'a': 3}|dictsort
[]|dictsort
mapping|list
mapping|length
mapping|count
mapping|first
mapping|last
mapping|join(',')
[1, 2, 3].index(2)
[1, 2].index(3)
[1, 1].count(1)
[1, 2].copy()
(1, 2).index(2)
(1, 2).count(1)
words|sort
words|sort(true)
words|sort(case_sensitive=true)
words|sort(reverse=true, case_sensitive=true)
numbers|sort
numbers|sort(reverse=true)
people|sort(attribute='age')|map(attribute='name')|list
people|sort(attribute='name')|map(attribute='name')|list
people|sort(attribute='age,name', reverse=true)|map(attribute='name')|list
people|sort(attribute='missing')|list|length
[1, 'a']|sort
[none, none]|sort
[[2, 1], [1, 2]]|sort
'hello'|sort
words|unique|list
words|unique(true)|list
[1, 1.0, true, 2]|unique|list
people|unique(attribute='age')|map(attribute='name')|list
[[1]]|unique|list
numbers|min
numbers|max
words|min
words|max
words|max(case_sensitive=true)
people|min(attribute='age')
[]|min
[]|max is defined
[1, 'a']|max
numbers|sum
reals|sum
[]|sum
people|sum(attribute='age')
numbers|sum(start=100)
[[1], [2]]|sum(start=[])
['a']|sum
words|first
words|last
[]|first
[]|last is defined
'abc'|first
'日本'|last
''|first
{}|first is defined
5|first
(x for x in y)
words|join
words|join(', ')
words|join('-', attribute='x')
people|join(',', attribute='name')
[1, none, true, 1.5, 'a']|join('|')
'abc'|join('-')
numbers|join(1)
5|join
words|reverse|list
'hello'|reverse
emoji|reverse
range(3)|reverse|list
mapping|reverse|list
5|reverse
words|list
'abc'|list
5|list
none|list
words|length
'日本'|length
5|length
none|count
words|map('upper')|list
words|map('replace', 'a', 'X')|list
people|map(attribute='name')|list
people|map(attribute='ok')|list
people|map(attribute='ok', default='?')|list
people|map(attribute='age')|map('string')|join('+')
[{'a': {'b': 1}}, {'a': {'b': 2}}]|map(attribute='a.b')|list
[[1, 2], [3, 4]]|map('first')|list
[[1, 2], [3, 4]]|map(attribute=1)|list
[[1, 2], [3, 4]]|map(attribute='1')|list
words|map|list
words|map('nofilter')|list
words|map(attribute='x', foo=1)|list
[]|map('nofilter')|list
numbers|select('odd')|list
numbers|select('greaterthan', 2)|list
numbers|reject('odd')|list
numbers|select|list
[0, 1, '', 'a', none, []]|select|list
[0, 1, '', 'a', none, []]|reject|list
words|select('equalto', 'Apple')|list
words|reject('in', ['Apple', 'apple'])|list
words|reject('equalto', 'code_interpreter')|join(', ')
people|selectattr('ok')|map(attribute='name')|list
people|rejectattr('ok')|map(attribute='name')|list
people|selectattr('age', 'equalto', 5)|map(attribute='name')|list
people|selectattr('age', '>', 5)|map(attribute='name')|list
people|selectattr('ok', 'defined')|map(attribute='name')|list
people|rejectattr('name', 'in', ['Bo'])|list
people|selectattr|list
numbers|select('notest')|list
numbers|batch(2)|list
numbers|batch(2, 'x')|list
numbers|batch(10)|list
numbers|slice(2)|list
numbers|slice(3, 'x')|list
numbers|slice(0)|list
people|groupby('age')
people|groupby('age')|map('first')|list
people|groupby(attribute='ok', default=false)|map(attribute='grouper')|list
words|groupby(0)|map(attribute='list')|list
3.7|int
-3.7|int
'42'|int
' 42 '|int
'4_2'|int
'42.9'|int
'1e3'|int
'abc'|int
'abc'|int(7)
'ff'|int(base=16)
'0xff'|int(0, 16)
'0b11'|int(base=0)
''|int
none|int
[]|int(3)
true|int
'inf'|int
'3.5'|float
' 1e3 '|float
'abc'|float
'abc'|float(2.5)
'nan'|float
'-Infinity'|float
none|float
5|float
true|float
-5|abs
-5.5|abs
true|abs
'a'|abs
42.55|round
42.45|round(1)
2.5|round
3.5|round
-2.5|round
2.675|round(2)
42.55|round(1, 'floor')
42.51|round(1, 'ceil')
42|round
42|round(1)
1234|round(-2)
1250|round(-2)
1350|round(-2)
1234.5|round(-2)
42.7|round(0, 'floor')
42|round(method='ceil')
1.5|round(method='x')
'a'|round
1e300|round
42.5|round|int
5|string
none|string
[1, 'a']|string
true|string
1.0|string
'a'|string
5|string is string
html|e
html|escape
html|forceescape
html|safe
html|safe|e
html|e|e
html|e|forceescape
html|safe + '<i>'
'<i>' + html|safe
('<i>' + html|safe)|length
html|safe ~ '<i>'
(html|safe) * 2
(html|safe)|upper + '<'
('%s' | safe) % '<'
('{}' | safe).format('<')
('<'|safe).join(['>', '&'|safe])
('a<b'|safe).replace('a', '>')
('a<b'|safe).split('<')[0] + '>'
['<'|safe]
{'a': html|safe}|tojson
(html|safe) is escaped
html is escaped
html|tojson
'\u2028 \x7f \x1f / < é 😀'|tojson
'é 😀'|tojson(ensure_ascii=true)
user|tojson
user|tojson(indent=2)
mapping|tojson(indent=4)
mapping|tojson(indent=0)
mapping|tojson(indent='--')
mapping|tojson(indent=none)
mapping|tojson(separators=(',', ':'))
mapping|tojson(indent=1, separators=(', ', ' : '))
{'b': 1, 'a': 2}|tojson(sort_keys=true)
{'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true, indent=1)
[]|tojson
{}|tojson
[]|tojson(indent=2)
[[], {}]|tojson(indent=2)
(1, 2)|tojson
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
{(1, 2): 3}|tojson
reals|tojson
[1.0, 1e100, -0.0, 0.1]|tojson
('inf'|float)|tojson
('nan'|float)|tojson
big|tojson
big
big is integer
range(3)|tojson
user.items|tojson
words|map('upper')|tojson
'a'|tojson|length
true|tojson
'a\nb\n\nc'|indent
'a\nb\n\nc'|indent(2)
'a\nb\n\nc'|indent(2, true)
'a\nb\n\nc'|indent(2, true, true)
'a\nb\n\nc'|indent(2, blank=true)
'a\nb'|indent('> ')
'a\nb\n'|indent
''|indent(2, true)
5|indent
'hello world foo bar'|truncate(10)
'hello world foo bar'|truncate(10, true)
'hello world foo bar'|truncate(10, false, '..')
'hello world foo bar'|truncate(11, false, '...', 0)
'hello'|truncate(5)
'日本語日本語日本語'|truncate(5, true, '…', 0)
'hello'|truncate(2)
'one two  three_four é'|wordcount
'a b/c?d=é&'|urlencode
{'a b': 'c/d', 'e': 1}|urlencode
[('a', 1)]|urlencode
mapping|attr('z')
'x'|attr('upper') is callable
5|items|list
'ab'|items|list
mapping|attr('items') is callable
namespace(a=1)
namespace(a=1).a
namespace(a=1)['a']
namespace({'a': 1}, b=2).b
namespace(a=1).missing
namespace(a=1) is mapping
namespace(_a=1)._a
'a' in namespace(a=1)
dict(a=1, b=2)
dict([('a', 1)], b=2)
dict({'a': 1}, a=2)
dict(mapping) == mapping
dict(1)
strftime_now('%d %b %Y')
strftime_now('%Y-%m-%d %H:%M:%S %j %A')
strftime_now('%')
strftime_now('')
raise_exception('no')
raise_exception()
cycler('a', 'b').next()
joiner()()
messages is defined
messages is iterable
messages is sequence
messages is mapping
messages[0] is mapping
user is mapping
user is iterable
user is sequence
'a' is iterable
'a' is sequence
'a' is mapping
5 is iterable
5 is sequence
none is iterable
range(3) is sequence
range(3) is iterable
words|map('upper') is iterable
words|map('upper') is sequence
(1, 2) is sequence
1 is number
1.5 is number
true is number
'1' is number
1 is integer
true is integer
1.0 is integer
1.0 is float
1 is float
true is boolean
1 is boolean
none is boolean
true is true
1 is true
false is false
0 is false
none is none
none is not none
1 is not none
missing is not defined
1 is odd
2 is even
-1 is odd
1.0 is odd
'a' is odd
10 is divisibleby 5
10 is divisibleby(3)
10 is divisibleby(num=3)
10 is divisibleby(0)
1 is eq 1
1 is equalto 1.0
1 is ne 2
1 is lt 2
1 is le 1
2 is gt 1
2 is ge 2
1 is == 1
1 is in [1]
'a' is in 'abc'
1 is sameas 1
none is sameas none
true is sameas true
words is sameas words
[] is sameas []
'abc' is lower
'Abc' is lower
'ABC' is upper
'' is upper
5 is upper
range is callable
user is callable
words[0].upper is callable
'tojson' is filter
'nope' is filter
'odd' is test
1 is notatest
1|notafilter
not 1 is odd
not missing is defined and yes
1 is defined and 2 is even
1 is odd or missing.x
'a' if 1 is odd else 'b'
1 is not odd
5 is divisibleby 5 and 1
'abc'|upper|lower|title
('a' ~ 'b')|upper
'a' ~ 'b'|upper
-5|abs
(-5)|abs
5 + -3|abs
not ''|default('x', true)
words[0]|upper
words|first|upper|replace('A', 'o')
user.name|upper is upper
[1, 2, 3]|length > 2
[1, 2]|length + 1
words|length is odd
{'a': 1}['a'] + {'b': 2}.b
[[1, 2], [3]][0][1]
{'a': {'b': 'c'}}.a.b|upper
'abc'.upper().lower()
'a-b'.split('-')[1].upper()
(1, 2, 3)[1]
[user.name, user.age]
dict(a=[1, 2]).a[0]
words.index('Apple')
'x'.join(words[1:3])
loop is defined
1 +
1 2
)
(1
[1
{'a'
'unclosed
a..b
a.
a[
|upper
1 |
1 | 5
is defined
not
1 if
foo(a=1, 2)
foo(*[1], *[2])
foo(**{}, a=1)
range(*[1, 4])|list
dict(**{'a': 1})
dict(**5)
dict(a=1, **{'a': 2})
dict(a=1, a=2)
@
a!b
1.5.real
1.real
'a'.0
user.age + user.age|string|length
1 == 1 is true
(1 == 1) is true
none|string|length
true and not false
not not 1
1 if 1 else missing.x
true == True, none == None, false == False
reals
numbers|map('abs')|sum
mapping.C
mapping['a']['x'] is none
"\"" ~ '\''
"a" "b" ~ 'c'
(missing)
(missing,)
[1][true]
[1, 2][1.0]
'abc'[1.0]
'abc'[true]
{true: 1}[1]
{1: 'x'}[true]
{1: 'x'}.1
5 // 2 * 2 + 5 % 2
2 * 3 ** 2
10 - 2 - 3
100 / 10 / 2
1 - -1
1 - - 1
3 > 2 and 2 > 1
'a' in 'abc' and 'z' not in 'abc'
'a' not in 'abc' == false
1.0 // 1
1.5 // 0.5
-1.5 % 1
1e308 * 10
0.0 == -0.0
-0.0
1e400
(0.1).is_integer()
(5).bit_length()
words == words|list
'10' + 5|string
user.nested.a.b|join(user.name)
messages[-1].role
messages[-1]['content'][0]
messages|length - 1
messages[1:]|length
(messages|last).role
messages|selectattr('role', 'equalto', 'user')|list|length
messages|map(attribute='role')|join(' ')
"%s" % user.name
'tools' in user or 'name' in user
user.tags|map('lower')|sort|join(',')
"a"
  
"""

TEMPLATES = [
    # Data and whitespace.
    "", "plain", "plain\n", "plain\n\n", "a\r\nb\rc\n", "{", "{ {", "a { b } c", "{{ 'x' }}\n", "{{ 'x' }}\n\n",
    "a\n{{ 'x' }}\nb", "  {{ 'x' }}  \n", "  {{- 'x' -}}  \n y", "a  {{- 'x' }}  b", "a  {{ 'x' -}}  \n\n b",
    "a {{+ 1 }}", "{{+1}}", "{{-1}}", "{{ -1 -}} x", "{{'a'-}}\n{{-'b'}}",
    "{% if true %}\nx\n{% endif %}\ny", "  {% if true %}\n  x\n  {% endif %}\n  y", "a {% if true %}\nb{% endif %}",
    "  {%+ if true %}x{% endif %}", "{% if true +%}\nx{% endif %}", "{% if true -%}\n  x\n  {%- endif %}\ny",
    "a\n  {%- if true %}\n x{% endif %}", "a\n\t {% if true %}b{% endif %}", "x{% if true %}\n\ny{% endif %}",
    "{% if true %}  {% endif %}|", "\n\n{% if true %}\n\n{% endif %}\n\n", "{#c#}", "a{# c #}b", "  {# c #}\nb",
    "a\n  {# c #}\nb", "a {#- c -#} b", "a {#+ c +#}\nb", "{# a\nb\n#}\nc", "{#-#}x", "{##}x", "{# {{ x }} {% y %} #}z",
    "{# unclosed", "{{ 'x'", "{% if true", "{{ 'a }}", "{% raw %}{{ x }} {% y %}{% endraw %}",
    "{% raw %}\n {{ x }}\n{% endraw %}\nz", "a  {%- raw -%}  b  {%- endraw -%}  c", "  {% raw %} x {% endraw %}",
    "a\n  {% raw %}b\n  {% endraw %}\nc", "{% raw %}unclosed", "{% raw %}{% endraw", "{%raw%}{%endraw%}x",
    "{% raw %}{# c #}{% endraw %}", "{{ '}}' }}", "{{ '{{' }}", "{{ {'a': {'b': 1}} }}", "{{ {'a': 1}['a'] }}",
    "{%if yes%}a{%endif%}", "{{'%}'}}{% if '%}' %}x{% endif %}", "{{ 1 }}{{ 2 }}\n{{ 3 }}", "{{\n1\n+\n2\n}}",
    "a\x0bb {%- if true %}x{% endif %}", "a\u3000{%- if true %}x{% endif %}", "\u3000{% if true %}x{% endif %}",
    "{% if true %}\r\nx\r\n{% endif %}\r\ny", "{% if true %}\n{% endif %}\n\n", "{{ 'a' }}  {% if true %} b {% endif %} c",
    "{% set x = 1 %}\n{% set y = 2 %}\n{{ x }}{{ y }}", "{%- set x = 1 -%}\n\n{{ x }}", "-{%- set x = 1 %} -",
    "{{ '\n' }}x", "{{ 'a\n\nb' }}", "{{ \"tab\there\" }}", "{%%}", "{{}}", "{{ }}", "{% %}", "{%- -%}",
    # if
    "{% if no %}a{% elif yes %}b{% else %}c{% endif %}", "{% if no %}a{% elif no %}b{% else %}c{% endif %}",
    "{% if no %}a{% elif no %}b{% endif %}", "{% if missing %}a{% else %}b{% endif %}", "{% if 1, %}t{% endif %}",
    "{% if [] %}a{% endif %}{% if {} %}b{% endif %}{% if '' %}c{% endif %}{% if 0.0 %}d{% endif %}{% if none %}e{% endif %}",
    "{% if words|map('upper') %}gen{% endif %}", "{% if []|select %}gen{% endif %}", "{% if yes %}{% if no %}{% else %}x{% endif %}{% endif %}",
    "{% if %}{% endif %}", "{% if yes %}", "{% endif %}", "{% else %}", "{% if yes %}{% endfor %}", "{% if yes %}a{% else %}b{% else %}c{% endif %}",
    "{% if yes: %}a{% endif %}", "{% if missing is defined and missing.x %}a{% else %}b{% endif %}",
    "{% if missing.x.y %}{% endif %}", "{% if a = 1 %}{% endif %}", "{% if no %}{{ 1|nofilter }}{% endif %}x",
    "{% if yes %}{{ 1|nofilter }}{% endif %}x", "{{ 1|nofilter if no else 2 }}", "{% if no %}{{ 1 is notest }}{% endif %}x",
    "{% macro m() %}{{ 1|nofilter }}{% endmacro %}x", "{% for x in [] %}{{ 1|nofilter }}{% endfor %}x",
    # for
    "{% for x in words %}{{ x }},{% endfor %}", "{% for x in [] %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in words %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}",
    "{% for x in words %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}",
    "{% for x in words %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in numbers if x > 1 %}{{ loop.index }}:{{ x }}:{{ loop.length }}:{{ loop.last }} {% else %}e{% endfor %}",
    "{% for x in numbers if x > 100 %}{{ x }}{% else %}e{% endfor %}", "{% for k in mapping %}{{ k }}{% endfor %}",
    "{% for k, v in mapping.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in mapping|items %}{{ k }}{{ loop.last }}{% endfor %}",
    "{% for k, v in mapping|dictsort %}{{ k }}{% endfor %}", "{% for c in emoji %}[{{ c }}]{% endfor %}",
    "{% for (a, b) in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for a, b in [[1]] %}{% endfor %}", "{% for a, b in ['xy'] %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in [5] %}{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}",
    "{% for x in missing %}a{% else %}b{% endfor %}", "{% for x in missing.y %}{% endfor %}", "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for x in range(3) %}{% for y in range(2) %}{{ x }}{{ y }}{{ loop.index }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in numbers %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in numbers %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in numbers %}{% break %}{% else %}e{% endfor %}", "{% for x in numbers %}{% continue %}{% else %}e{% endfor %}",
    "{% for x in numbers %}{{ x }}{% else %}e{% endfor %}", "{% for x in [1, 2] %}{% for y in [1, 2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }}{% endfor %}{% endfor %}",
    "{% for x in [1] %}{% for y in [] %}{% else %}{% break %}{% endfor %}after{% endfor %}", "{% break %}", "{% continue %}", "{% if yes %}{% break %}{% endif %}",
    "{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% for x in [1, 2] %}{% set b %}a{% break %}{% endset %}{% endfor %}done",
    "{% for x in [1, 2] %}{% filter upper %}a{% continue %}{% endfilter %}b{% endfor %}done", "{% for x in words %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}", "{% for x in words %}{{ loop }}{% endfor %}", "{% for loop in [1] %}{% endfor %}", "{% for x in [1] %}{% set loop = 1 %}{% endfor %}",
    "{% for x in [1] %}{{ loop.index }}{% endfor %}{{ loop is defined }}", "{% for x in [1] %}{% endfor %}{{ x is defined }}", "{% set x = 0 %}{% for x in [1, 2] %}{{ x }}{% endfor %}{{ x }}",
    "{% for x in words|map('upper') %}{{ loop.length }}{{ x }}{% endfor %}", "{% for x in words|map('upper') %}{{ x }}{{ loop.last }}{% endfor %}", "{% for x in words|reverse %}{{ x }}{{ loop.length }}{% endfor %}",
    "{% set g = words|map('upper') %}{{ g|list }}{{ g|list }}", "{% set g = numbers|select('odd') %}{{ g|first }}{{ g|list }}", "{% set g = mapping|items %}{% for k, v in g %}{{ k }}{% endfor %}{% for k, v in g %}{{ k }}{% endfor %}",
    "{% for item in [[1, [2, [3]]]] recursive %}{{ item if item is number else loop(item) }}{% endfor %}",
    "{% for n in [{'v': 1, 'c': [{'v': 2, 'c': [{'v': 3, 'c': []}]}]}] recursive %}{{ loop.depth }}{{ loop.depth0 }}{{ n.v }}{{ loop(n.c) }}{% else %}.{% endfor %}",
    "{% for x in [1] %}{{ loop([2]) }}{% endfor %}", "{% for x in numbers if loop.index %}{% endfor %}", "{% for x in [1, 2] %}{% for y in [1] if loop.index == 1 %}{{ y }}{% endfor %}{% endfor %}",
    "{% for x in [1, 2, 3] if x != skip %}{{ x }}{% endfor %}", "{% for x in range(3) %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}", "{% for x in [1] %}{{ x }}", "{% for x %}{% endfor %}", "{% for x in %}{% endfor %}",
    "{% for x.y in [1] %}{% endfor %}", "{% for 'a' in [1] %}{% endfor %}", "{% for x in [3, 1, 2]|sort %}{{ x }}{% endfor %}", "{% for x in 'ab' if x != 'a' %}{{ x }}{% endfor %}",
    "{% for m in messages[::-1] %}{{ m.role }}{{ (messages|length - 1) - loop.index0 }}{% endfor %}", "{% for i in range(messages|length - 1, -1, -1) %}{{ messages[i].role }}{% endfor %}",
    "{% for x in words if x is string recursive %}{{ x }}{% endfor %}", "{% for a in [1, 2] %}{% for b in [1, 2] if b != a %}{{ a }}{{ b }} {% endfor %}{% endfor %}", "{% for x in [[1, 2], [3]] %}{% for y in x %}{{ loop.index }}/{{ loop.length }} {% endfor %}{% endfor %}",
    "{% for x in words %}{% if loop.first %}[{% endif %}{{ x }}{% if loop.last %}]{% else %}, {% endif %}{% endfor %}", "{% for x in [1, 2, 3] %}{{ x if x != 2 }}{% endfor %}",
    "{% for x in [1, 2] %}{{ loop['index'] }}{% endfor %}", "{% for x in [1, 2] %}{{ loop.nope is defined }}{% endfor %}", "{% for x in [1, 2] %}{{ loop|length }}{% endfor %}", "{% for x, in [[1]] %}{{ x }}{% endfor %}",
    # set and scopes
    "{% set x = 1 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x, y = [1, 2] %}{{ x }}{{ y }}", "{% set (x, y) = 'ab' %}{{ x }}{{ y }}", "{% set x = 1, 2 %}{{ x }}", "{% set x, y = 1 %}", "{% set x = missing %}{{ x is defined }}",
    "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}", "{% if yes %}{% set x = 2 %}{% endif %}{{ x }}", "{% if no %}{% set x = 2 %}{% endif %}{{ x is defined }}", "{% if no %}{% set user = 2 %}{% endif %}{{ user.name }}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}", "{% for i in [1, 2] %}{% set x = i %}{% endfor %}{{ x is defined }}", "{% for i in [1, 2] %}{{ x is defined }}{% set x = i %}{% endfor %}",
    "{% for i in [1, 2] %}{% if i == 1 %}{% set x = i %}{% endif %}{{ x }}{% endfor %}", "{% for i in [1, 2] %}{% if i == 1 %}{% set zero = 5 %}{% endif %}{{ zero }}{% endfor %}", "{% for i in [1, 2] %}{% if i == 2 %}{{ zero }}{% else %}{% set zero = 5 %}{% endif %}{% endfor %}{{ zero }}",
    "{% for i in [1, 2] %}{{ zero }}{% set zero = 5 %}{{ zero }}{% endfor %}{{ zero }}", "{% for i in [1] %}{{ user.name }}{% endfor %}{% set user = {'name': 'Z'} %}{{ user.name }}", "{% macro m() %}{{ zero }}{% endmacro %}{{ m() }}{% set zero = 7 %}{{ m() }}",
    "{% macro m() %}{{ x }}{% endmacro %}{% set x = 7 %}{{ m() }}{% set x = 8 %}{{ m() }}", "{{ zero }}{% macro m() %}{{ zero }}{% endmacro %}{{ m() }}{% set zero = 7 %}{{ m() }}", "{% macro m() %}{% set zero = 3 %}{{ zero }}{% endmacro %}{{ m() }}{{ zero }}",
    "{% macro m() %}{{ zero }}{% set zero = 3 %}{{ zero }}{% endmacro %}{{ m() }}{{ zero }}", "{% macro m() %}{% if no %}{% set zero = 3 %}{% endif %}{{ zero }}{% endmacro %}{{ m() }}", "{% set x = 1 %}{% macro m() %}{% if no %}{% set x = 3 %}{% endif %}{{ x }}{% endmacro %}{{ m() }}",
    "{% if no %}{% set a = 1 %}{% elif yes %}{% set b = 2 %}{% else %}{% set a = 3 %}{% endif %}{{ a is defined }}{{ b }}", "{% if no %}{% set zero = 1 %}{% elif no %}{{ zero }}{% endif %}{{ zero }}", "{% if no %}{{ zero }}{% elif yes %}{% set zero = 2 %}{% endif %}{{ zero }}",
    "{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "{% set ns = namespace() %}{% set ns.y = 1 %}{{ ns.y }}{{ ns.z is defined }}", "{% set ns = namespace() %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}", "{% set user.name = 1 %}", "{% set x = 1 %}{% set x.y = 1 %}", "{% set missing.y = 1 %}",
    "{% set ns = namespace(l=[]) %}{% for x in [1, 2] %}{% set ns.l = ns.l + [x] %}{% endfor %}{{ ns.l }}", "{% set ns = namespace(a=namespace(b=1)) %}{{ ns.a.b }}{% set ns.a.b = 2 %}", "{% set ns = namespace(x=1) %}{{ ns }}", "{% macro m(n) %}{% set n.x = 5 %}{% endmacro %}{% set ns = namespace(x=1) %}{{ m(ns) }}{{ ns.x }}",
    "{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]", "{% set x | upper %}a{{ 'b' }}{% endset %}{{ x }}", "{% set x | replace('a', 'b') | upper %}aa{% endset %}{{ x }}", "{% set x %}\n a \n{% endset %}[{{ x }}]", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}", "{% set ns = namespace() %}{% set ns.t %}abc{% endset %}{{ ns.t }}",
    "{% set x %}<b>{% endset %}{{ x + '<' }}", "{% set x = 1 %}{% set y %}{{ x }}{% set x = 2 %}{{ x }}{% endset %}{{ y }}{{ x }}", "{% set x %}unclosed", "{% set %}", "{% set x = %}", "{% set 1 = 2 %}", "{% set x = 1 if no %}{{ x is defined }}", "{% set a = b = 1 %}", "{% set x = [1, 2] %}{% set y = x %}{{ y is sameas x }}",
    "{% with %}{{ zero }}{% endwith %}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with a = 1 %}{% set a = 2 %}{{ a }}{% endwith %}{{ a is defined }}", "{% with %}{% set zero = 1 %}{{ zero }}{% endwith %}{{ zero }}",
    "{% set messages = messages[1:] %}{{ messages|length }}", "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ rest|length }}", "{% if not tools is defined %}{% set tools = none %}{% endif %}{{ tools is none }}", "{% if not user is defined %}{% set user = none %}{% endif %}{{ user.age }}",
    "{% for m in messages %}{% set content = m.content %}{{ content }}{% endfor %}{{ content is defined }}", "{% for x in [1, 2] %}{% set x = x * 2 %}{{ x }}{% endfor %}", "{% for i in [1, 2, 3] %}{% if i == 1 %}{% set seen = true %}{% endif %}{{ seen is defined }}{% endfor %}",
    # macros, call blocks, filter blocks, generation
    "{% macro m() %}x{% endmacro %}{{ m() }}{{ m }}", "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m(1, b=6) }}", "{% macro m(a) %}[{{ a }}]{{ a is defined }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(c=2) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}", "{% macro m(a=b, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}", "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m(a, b=[]) %}{{ b|length }}{% endmacro %}{{ m(1) }}{{ m(1, [1]) }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, a=3) }}", "{% macro m(a) %}{{ a }}{{ varargs|join(',') }}{% endmacro %}{{ m(1, 2, 3) }}", "{% macro m(a) %}{{ kwargs.b }}{% endmacro %}{{ m(1, b=2) }}", "{% macro m(a) %}{{ varargs }}{% endmacro %}{{ m(1, b=2) }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro a(n) %}a{{ b(n - 1) if n > 0 }}{% endmacro %}{% macro b(n) %}b{{ a(n - 1) if n > 0 }}{% endmacro %}{{ a(4) }}", "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m() %}  x  {% endmacro %}[{{ m()|trim }}]", "{% macro m() -%}  x  {%- endmacro %}[{{ m() }}]",
    "{% macro m() %}{{ 1 }}{% endmacro %}{{ m() is string }}{{ m() + 'a' }}{{ m()|length }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(x=m(x='a')) }}", "{% macro outer() %}{% macro inner() %}i{{ zero }}{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}", "{% macro outer(x) %}{% macro inner() %}{{ x }}{% endmacro %}{{ inner() }}{% endmacro %}{{ outer(1) }}{{ outer(2) }}",
    "{% if yes %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}", "{% if no %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}", "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% for i in [1, 2] %}{% macro m() %}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m(a) %}{{ caller() }}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body{% endcall %}", "{% macro m(x) %}[{{ caller(x) }}]{% endmacro %}{% call(v) m(5) %}{{ v }}{% endcall %}", "{% macro m() %}{{ caller(1) }}{{ caller(2, 3) }}{% endmacro %}{% call(a, b='d') m() %}{{ a }}{{ b }}{% endcall %}", "{% macro m() %}{% if caller is defined %}y{% else %}n{% endif %}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% set z = 1 %}{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ z }}{% set z = 2 %}{{ z }}{% endcall %}{{ z }}", "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{% call m() %}in{% endcall %}{% endcall %}", "{% call 5 %}{% endcall %}", "{% call range(3) %}x{% endcall %}",
    "{% macro a() %}{{ caller() }}{% endmacro %}{% macro b() %}{% call a() %}{{ caller() }}{% endcall %}{% endmacro %}{% call b() %}x{% endcall %}", "{% filter upper %}a{{ 'b' }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aa{% endfilter %}", "{% filter trim %}\n x \n{% endfilter %}", "{% filter nope %}{% endfilter %}", "{% filter upper %}{% set q = 'x' %}{{ q }}{% endfilter %}{{ q is defined }}",
    "{% filter indent(2, true) %}a\nb{% endfilter %}", "{% generation %}x{{ 1 }}{% endgeneration %}", "{% generation %}\nx\n{% endgeneration %}\ny", "{% for m in messages %}{% generation %}{{ m.role }}{{ loop.index }}{% endgeneration %}{% endfor %}", "{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}", "{% for x in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}{{ m(1, *[2]) }}", "{% macro m(x) %}{% for i in x %}{% if i is string %}{{ i }}{% else %}({{ m(i) }}){% endif %}{% endfor %}{% endmacro %}{{ m(['a', ['b', ['c']], 'd']) }}", "{% macro m(argument, escape=true) %}{{ argument }}{{ escape }}{% endmacro %}{{ m('a', escape=false) }}",
    "{% macro m(a) %}{% for x in a %}{{ x }}{% endfor %}{% endmacro %}{{ m([1, 2]) }}{{ m('ab') }}{{ m() }}", "{% macro m() %}{{ m.name }}{{ m.arguments }}{% endmacro %}{{ m() }}", "{% macro m(a, b) %}{% endmacro %}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.caller }}", "{% macro m() %}", "{% macro %}{% endmacro %}", "{% macro m %}{% endmacro %}", "{% macro m(1) %}{% endmacro %}",
    "{% macro count(x) %}{% set ns = namespace(n=0) %}{% for i in range(x) %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}{% endmacro %}{{ count(3) }}{{ count(4)|int + 1 }}", "{% macro m(content) %}{% if content is string %}{{ content }}{% elif content is iterable and content is not mapping %}{% for c in content %}{{ c.text }}{% endfor %}{% endif %}{% endmacro %}{{ m('a') }}{{ m([{'text': 'b'}]) }}{{ m({'text': 'c'}) }}{{ m(none) }}",
    "{% print 1 %}{% print 1, 'a' %}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% block b %}{% endblock %}{% unknown %}", "{% do 1 %}", "{% 5 %}", "{% if yes %}{% unknown %}{% endif %}", "{{ caller }}", "{{ varargs is defined }}", "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}c", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}",
    "{{ raise_exception('bad') }}", "{% if no %}{{ raise_exception('bad') }}{% endif %}ok", "{{ [1, 2, 3].append(4) if no else 'kept' }}", "{% set l = [3, 1] %}{{ l|sort }}{{ l }}", "{{ dict(a=1).items()|list|first|first }}", "{% set d = {'a': 1} %}{% set d = dict(d, b=2) %}{{ d }}", "{{ ''|default(missing) is defined }}", "{{ (words, numbers)|map('length')|list }}",
    "{{ messages[0]['role'] in ['system', 'developer'] }}", "{%- if messages[0]['content'] is not none and messages[0]['content']|length > 0 -%}yes{%- endif -%}", "{{ '' if messages else 'none' }}{{ '<|im_start|>' + messages[0].role + '\\n' + messages[0].content + '<|im_end|>' }}", "{{- messages[0].content.split('</think>')[-1].lstrip('\\n') }}", "{{ 'x' if messages[0].tool_calls is defined else 'y' }}", "{{ messages[0].tool_calls }}{{ messages[0]['tool_calls'] is defined }}",
    "{%- for message in messages %}{{- '<|' + message['role'] + '|>\\n' + message['content'] | trim + '<|end|>' }}{%- endfor %}", "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}", "{{ 'a' if (loop is defined) else 'b' }}", "{% set x = 'a' if no else ('b' if no else 'c') %}{{ x }}", "{{ messages | tojson }}", "{{ messages | tojson(indent=4) }}",
    "{{ {'name': user.name, 'arguments': mapping} | tojson }}", "{% set content = '<think>a</think>b' %}{% if '</think>' in content %}{% set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}{{ reasoning }}|{{ content }}",
]


def all_snippets():
    for line in EXPRESSIONS.strip("\n").replace("line\\\n", "line\\\r").split("\n"):
        yield "{{ " + line.replace("line\\\r", "line\\\n") + " }}"
    yield from TEMPLATES
