import t from 'tap'
import { UnsignedInt } from '../../../src/expression/cel-parser.js'
import { queryStringFunctions, urlFunctions } from '../../../src/expression/functions/url.js'
import { find, outcome, randomNumbers, randomText } from './call.js'

const LONG = 'x'.repeat(1_048_577)

t.test('escaping encodes all but unreserved characters', async (t) => {
  const escapeUrl = find(urlFunctions, 'url.escape(string)')
  t.equal(escapeUrl('/a;b$c d'), '%2Fa%3Bb%24c%20d')
  t.equal(escapeUrl("AZaz09-._~!'()*+é😀"), 'AZaz09-._~%21%27%28%29%2A%2B%C3%A9%F0%9F%98%80')
  t.equal(escapeUrl('\ud83d'), '%EF%BF%BD', 'half a pair')
  t.equal(find(urlFunctions, 'string.escapeUrl()')('a/b'), 'a%2Fb')
  t.equal(
    outcome(() => escapeUrl(LONG)),
    'failed'
  )
  t.equal(
    outcome(() => escapeUrl('/'.repeat(400_000))),
    'failed',
    'the result would be too long'
  )
})

t.test('unescaping fails on what is no escape of UTF-8', async (t) => {
  const unescapeUrl = find(urlFunctions, 'url.unescape(string)')
  t.equal(unescapeUrl('a%2fb+c%20d%2B'), 'a/b c d+')
  t.equal(find(urlFunctions, 'string.unescapeUrl()')('%C3%A9'), 'é')
  for (const text of ['%', '%2', '%zz', '%ff', '%c0%af', '%ed%a0%80'])
    t.equal(
      outcome(() => unescapeUrl(text)),
      'failed',
      text
    )
})

t.test('unescaping gives back what was escaped', async (t) => {
  const random = randomNumbers(21)
  for (let run = 0; run < 300; run++) {
    const text = randomText(random, 30)
    const escaped = find(urlFunctions, 'url.escape(string)')(text) as string
    if (!/^[A-Za-z0-9\-._~%]*$/.test(escaped)) t.fail(escaped)
    if (find(urlFunctions, 'url.unescape(string)')(escaped) !== text) t.fail(JSON.stringify(text))
  }
  t.pass()
})

const EMPTY = {
  scheme: '',
  opaque: '',
  user: '',
  password: '',
  host: '',
  hostname: '',
  port: '',
  path: '',
  raw_path: '',
  query: '',
  raw_query: '',
  query_params: {},
  fragment: ''
}

function parsed(text: string): Record<string, unknown> {
  const parts = find(urlFunctions, 'url.parse(string)')(text) as Map<string, unknown>
  const parameters = parts.get('query_params') as Map<string, string[]>
  return Object.fromEntries([...parts, ['query_params', Object.fromEntries(parameters)]])
}

t.test('a URL is taken apart', async (t) => {
  const table: [string, Partial<typeof EMPTY>][] = [
    ['', {}],
    [
      'HTTPS://user:p%40ss@Example.com:8443/a%2Fb/c?x=1&x=2&y=%20#frag%20ment',
      {
        scheme: 'https',
        user: 'user',
        password: 'p@ss',
        host: 'Example.com:8443',
        hostname: 'Example.com',
        port: '8443',
        path: '/a/b/c',
        raw_path: '/a%2Fb/c',
        query: 'x=1&x=2&y=%20',
        raw_query: 'x=1&x=2&y=%20',
        query_params: { x: ['1', '2'], y: [' '] },
        fragment: 'frag ment'
      }
    ],
    [
      'http://[2001:db8::1]:80/',
      { scheme: 'http', host: '[2001:db8::1]:80', hostname: '2001:db8::1', port: '80', path: '/', raw_path: '/' }
    ],
    ['http://a@b@c/', { scheme: 'http', user: 'a@b', host: 'c', hostname: 'c', path: '/', raw_path: '/' }],
    ['mailto:a@b.c', { scheme: 'mailto', opaque: 'a@b.c' }],
    ['//host/path', { host: 'host', hostname: 'host', path: '/path', raw_path: '/path' }],
    ['/path:x?q', { path: '/path:x', raw_path: '/path:x', query: 'q', raw_query: 'q', query_params: { q: [''] } }],
    ['?a=%zz', { query: 'a=%zz', raw_query: 'a=%zz' }],
    ['file:///etc', { scheme: 'file', path: '/etc', raw_path: '/etc' }]
  ]
  for (const [text, parts] of table) t.same(parsed(text), { ...EMPTY, ...parts }, text)
  t.ok(find(urlFunctions, 'string.parseUrl()')('/a') instanceof Map)
  for (const text of [
    'http://a b/',
    'http://a%zz/',
    'http://a:b/',
    'http://[::1/',
    'http://a/%zz',
    'http://a/\n',
    'http://a/#%',
    'http://u%zz@a/',
    'http://a"b/',
    ':foo',
    'a b:c',
    LONG
  ]) {
    t.equal(
      outcome(() => find(urlFunctions, 'url.parse(string)')(text)),
      'failed',
      text.slice(0, 20)
    )
  }
})

t.test('a URL in the strict sense has a scheme and a host', async (t) => {
  for (const form of ['string.isURL()', 'string.isUrl()', 'isUrl(string)', 'isURL(string)']) {
    const isUrl = find(urlFunctions, form)
    for (const text of ['https://example.com', 'ftp://h/x', 'http://[::1]']) t.equal(isUrl(text), true, text)
    for (const text of [
      '',
      '/a',
      'example.com',
      'mailto:a@b',
      '//host/',
      'http://',
      'http://a b',
      'javascript:alert(1)'
    ]) {
      t.equal(isUrl(text), false, text)
    }
  }
})

t.test('a query string is decoded to the first value of each name', async (t) => {
  const decode = find(queryStringFunctions, 'queryString.decode(string)')
  const table: [string, Record<string, string>][] = [
    ['', {}],
    ['a=1&b=2&a=3', { a: '1', b: '2' }],
    ['a+b=c%20d&&=x&y', { 'a b': 'c d', '': 'x', y: '' }],
    ['a=b=c', { a: 'b=c' }]
  ]
  for (const [text, map] of table) t.same([...(decode(text) as Map<string, string>)], Object.entries(map), text)
  const names = find(queryStringFunctions, 'string.decodeQueryString()')('__proto__=1&constructor=2') as Map<
    string,
    string
  >
  t.equal(names.get('__proto__'), '1')
  t.equal(names.get('constructor'), '2')
  for (const text of ['a;b', 'a=%zz', '%=1', 'a=%ff', LONG]) {
    t.equal(
      outcome(() => decode(text)),
      'failed',
      text.slice(0, 20)
    )
    t.equal(find(queryStringFunctions, 'string.isQueryString()')(text), false)
    t.equal(find(queryStringFunctions, 'isQueryString(string)')(text), false)
  }
  t.equal(
    outcome(() => decode('a&'.repeat(100_001))),
    'failed',
    'too many parameters'
  )
  t.equal(find(queryStringFunctions, 'string.isQueryString()')('a=1&b'), true)
})

t.test('a map is encoded as a query string in the order of its names', async (t) => {
  const encode = find(queryStringFunctions, 'queryString.encode(map)')
  const map = new Map<string, unknown>([
    ['b', ['x y', 'é']],
    ['a', 1n],
    ['c&', true],
    ['d', 1.5],
    ['e', new UnsignedInt(7n)],
    ['none', []]
  ])
  t.equal(encode(map), 'a=1&b=x+y&b=%C3%A9&c%26=true&d=1.5&e=7')
  t.equal(find(queryStringFunctions, 'map.encodeQueryString()')(new Map()), '')
  for (const value of [null, new Map(), [[]], LONG])
    t.equal(
      outcome(() => encode(new Map([['a', value]]))),
      'failed'
    )
})

t.test('decoding gives back the map that was encoded', async (t) => {
  const random = randomNumbers(22)
  for (let run = 0; run < 300; run++) {
    const map = new Map(Array.from({ length: random(6) }, () => [randomText(random, 6), randomText(random, 6)]))
    const text = find(queryStringFunctions, 'queryString.encode(map)')(map) as string
    const back = find(queryStringFunctions, 'queryString.decode(string)')(text) as Map<string, string>
    if (back.size !== map.size || [...map].some(([name, value]) => back.get(name) !== value)) t.fail(text)
  }
  t.pass()
})
