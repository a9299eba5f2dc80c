/** Description of a function's result, an example expression, and the example's value as JSON. */
export type FunctionMeaning = readonly [text: string, example: string, value: string]

const digest = (name: string, of: string) =>
  `The ${name} digest of the UTF-8 form of ${of}, as hexadecimal digits or in the format that is named, hex or base64.`

/** Descriptions of text functions. */
export const TEXT_FUNCTIONS: Readonly<Record<string, FunctionMeaning>> = {
  'b64.decode': [
    'The text whose UTF-8 form a text of Base64 (RFC 4648 section 4) stands for.',
    "b64.decode('aGVsbG8=')",
    '"hello"'
  ],
  'b64.encode': ['A text as Base64 (RFC 4648 section 4) of its UTF-8 form.', "b64.encode('hello')", '"aGVsbG8="'],
  'base64.decode': ['The bytes that a text of Base64 stands for.', "string(base64.decode('aGVsbG8='))", '"hello"'],
  'base64.encode': ['Bytes as Base64.', "base64.encode(b'hello')", '"aGVsbG8="'],
  'basic_auth.encode': [
    'User name and password as the value of an Authorization header (RFC 7617).',
    "basic_auth.encode('user', 'secret')",
    '"Basic dXNlcjpzZWNyZXQ="'
  ],
  'hash.crc32': [digest('CRC-32', 'a text'), "hash.crc32('a')", '"e8b7be43"'],
  'string.crc32': [digest('CRC-32', 'the text'), "'a'.crc32()", '"e8b7be43"'],
  'hash.crc64': [digest('CRC-64 (ISO)', 'a text'), "hash.crc64('a')", '"3420000000000000"'],
  'string.crc64': [digest('CRC-64 (ISO)', 'the text'), "'a'.crc64()", '"3420000000000000"'],
  'hash.md5': [digest('MD5 (RFC 1321)', 'a text'), "hash.md5('a')", '"0cc175b9c0f1b6a831c399e269772661"'],
  'string.md5': [digest('MD5 (RFC 1321)', 'the text'), "'a'.md5()", '"0cc175b9c0f1b6a831c399e269772661"'],
  'hash.sha1': [digest('SHA-1', 'a text'), "hash.sha1('a')", '"86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"'],
  'string.sha1': [digest('SHA-1', 'the text'), "'a'.sha1()", '"86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"'],
  'hash.sha256': [
    digest('SHA-256', 'a text'),
    "hash.sha256('a')",
    '"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"'
  ],
  'string.sha256': [
    digest('SHA-256', 'the text'),
    "'a'.sha256()",
    '"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"'
  ],
  'hash.sha512': [
    digest('SHA-512', 'a text'),
    "hash.sha512('a', 'base64')",
    '"H0D8ktokFpR1CXnubPWC8tXX0o4YM13gWrxU0FYOD1MChgxlK/CNVgJSql50IQVG82n7u86MEs/HlXsmUv6adQ=="'
  ],
  'string.sha512': [
    digest('SHA-512', 'the text'),
    "'a'.sha512('base64')",
    '"H0D8ktokFpR1CXnubPWC8tXX0o4YM13gWrxU0FYOD1MChgxlK/CNVgJSql50IQVG82n7u86MEs/HlXsmUv6adQ=="'
  ],
  'hash.xxhash64': [digest('xxHash64', 'a text'), "hash.xxhash64('a')", '"d24ec4f1a98c6e5b"'],
  'string.xxhash64': [digest('xxHash64', 'the text'), "'a'.xxhash64()", '"d24ec4f1a98c6e5b"'],
  isJson: ['Is the text JSON?', 'isJson(\'{"a": 1}\')', 'true'],
  isQueryString: ['Can the text be decoded as a query?', "isQueryString('a=1&b=2')", 'true'],
  isURL: ['Is the text an absolute URL?', "isURL('https://example.com/')", 'true'],
  isUrl: ['As isURL.', "isUrl('/path')", 'false'],
  'json.decode': ['The value that a text of JSON stands for.', 'json.decode(\'{"a": [1, 2]}\').a[1]', '2'],
  'json.encode': ['A value as JSON.', "json.encode({'a': [1, 2]})", '"{\\"a\\":[1,2]}"'],
  'queryString.decode': [
    'The parameters of a query, decoded, by name.',
    "queryString.decode('a=1&b=x+y')",
    '{"a":"1","b":"x y"}'
  ],
  'queryString.encode': ['A map as a query.', "queryString.encode({'a': 'b c'})", '"a=b+c"'],
  string: ['A value as text; bytes are read as UTF-8.', 'string(1.5)', '"1.5"'],
  'string.charAt': ['The character at a position, from 0.', "'sluice'.charAt(1)", '"l"'],
  'string.contains': ['Does the text hold the other one?', "'sluice'.contains('ice')", 'true'],
  'string.decodeBase64': ['As b64.decode.', "'aGVsbG8='.decodeBase64()", '"hello"'],
  'string.decodeJson': ['As json.decode.', "'[1, 2]'.decodeJson()", '[1,2]'],
  'string.decodeQueryString': ['As queryString.decode.', "'a=1&b=2'.decodeQueryString()", '{"a":"1","b":"2"}'],
  'string.encodeBase64': ['As b64.encode.', "'hello'.encodeBase64()", '"aGVsbG8="'],
  'string.endsWith': ['Does the text end with the other one?', "'/index.html'.endsWith('.html')", 'true'],
  'string.escapeUrl': ['As url.escape.', "'a b/c'.escapeUrl()", '"a%20b%2Fc"'],
  'string.format': [
    'The text with values in the places of %s, %d, %f, %e, %b, %x, %X and %o.',
    "'%s: %d'.format(['a', 1])",
    '"a: 1"'
  ],
  'string.inCidrRange': ['As inCidrRange.', "'10.1.2.3'.inCidrRange('10.0.0.0/8')", 'true'],
  'string.inCidrRanges': ['As inCidrRanges.', "'10.1.2.3'.inCidrRanges(['192.0.2.0/24'])", 'false'],
  'string.indexOf': [
    'The position of the other text, at or behind a position; -1 when it is not there.',
    "'sluice'.indexOf('i')",
    '3'
  ],
  'string.isJson': ['As isJson.', "'{'.isJson()", 'false'],
  'string.isPrivateIp': ['As isPrivateIp.', "'8.8.8.8'.isPrivateIp()", 'false'],
  'string.isQueryString': ['As isQueryString.', "'a=%zz'.isQueryString()", 'false'],
  'string.isURL': ['As isURL.', "'https://example.com/'.isURL()", 'true'],
  'string.isUrl': ['As isURL.', "'/path'.isUrl()", 'false'],
  'string.lastIndexOf': [
    'The last position of the other text, at or before a position; -1 when it is not there.',
    "'a,b,c'.lastIndexOf(',')",
    '3'
  ],
  'string.lower': ['The text in lower case, by the rules of Unicode.', "'ÄB'.lower()", '"äb"'],
  'string.lowerAscii': ['The text with the letters A to Z in lower case.', "'ÄB'.lowerAscii()", '"Äb"'],
  'string.parseUrl': ['As url.parse.', "'https://example.com/a'.parseUrl().path", '"/a"'],
  'string.replace': [
    'The text with the first text replaced by the second one, everywhere or so many times.',
    "'a-b-c'.replace('-', '+', 1)",
    '"a+b-c"'
  ],
  'string.reverse': ['The characters in opposite order.', "'abc'.reverse()", '"cba"'],
  'string.size': ['How many characters there are.', "'é'.size()", '1'],
  'string.split': [
    'The pieces between the separator, at most as many as the number says; between spaces without a separator.',
    "'a,b,c'.split(',', 2)",
    '["a","b,c"]'
  ],
  'string.startsWith': ['Does the text begin with the other one?', "'/api/users'.startsWith('/api/')", 'true'],
  'string.substring': [
    'The text from a position on, up to and without a second one.',
    "'sluice'.substring(1, 3)",
    '"lu"'
  ],
  'string.trim': ['The text without white space at its ends.', "'  a '.trim()", '"a"'],
  'string.unescapeUrl': ['As url.unescape.', "'a%20b'.unescapeUrl()", '"a b"'],
  'string.upper': ['The text in upper case, by the rules of Unicode.', "'äb'.upper()", '"ÄB"'],
  'string.upperAscii': ['The text with the letters a to z in upper case.', "'äb'.upperAscii()", '"äB"'],
  'strings.quote': [
    'The text between quotes, with escapes where CEL needs them.',
    'strings.quote(\'a "b"\')',
    '"\\"a \\\\\\"b\\\\\\"\\""'
  ],
  'url.escape': [
    'A text with all but the unreserved characters (RFC 3986 section 2.3) as escapes of their UTF-8 form.',
    "url.escape('a b')",
    '"a%20b"'
  ],
  'url.parse': [
    'The parts of a URL by name: scheme, authority, path, query, fragment and what they hold.',
    "url.parse('https://example.com/a?b=1').path",
    '"/a"'
  ],
  'url.unescape': [
    'A text with escapes (RFC 3986 section 2.1) as characters and + as a space.',
    "url.unescape('a%20b')",
    '"a b"'
  ]
}
