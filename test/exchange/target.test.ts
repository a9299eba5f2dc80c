import t from 'tap'
import { RequestTarget } from '../../src/exchange/target.js'

const HOST = 'example.com'
const parse = (target: string, method = 'GET', authority = HOST) =>
  RequestTarget.fromRequestLine(method, target, authority, 'http')

t.test('the path has one normal form', async (t) => {
  const forms: [came: string, normal: string][] = [
    ['/', '/'],
    ['/a/b', '/a/b'],
    ['/a/./b', '/a/b'],
    ['/a/../b', '/b'],
    ['/a/b/..', '/a/'],
    ['/a/b/.', '/a/b/'],
    ['/../../etc/passwd', '/etc/passwd'],
    ['/a/%2e%2e/b', '/b'],
    ['/a/%2E%2e/%2e/b', '/b'],
    ['/%7Euser', '/~user'],
    ['/%41%2d%5f%2e%7e', '/A-_.~'],
    ['/a%2fb', '/a%2Fb'],
    ['/a%5cb', '/a%5Cb'],
    ['/a%00b', '/a%00b'],
    ['/a\\b', '/a%5Cb'],
    ['/a|b', '/a%7Cb'],
    ['/a"<>^`{}b', '/a%22%3C%3E%5E%60%7B%7Db'],
    ['//host/path', '//host/path'],
    ['/a//b', '/a//b'],
    ['/a/.../b', '/a/.../b'],
    ['/a/.hidden', '/a/.hidden'],
    ['/a/..;/b', '/a/..;/b'],
    ['/%252e%252e/', '/%252e%252e/'],
    ['/a%2Fb/../c', '/c']
  ]
  for (const [came, normal] of forms) t.equal(parse(came)?.path, normal, came)
})

t.test('the normal form is a fixed point', async (t) => {
  const alphabet = [
    '/',
    '.',
    '..',
    '%2e',
    '%2F',
    'a',
    'B',
    '~',
    '%41',
    '%25',
    '?',
    '=',
    '&',
    ';',
    '|',
    '%',
    '%zz',
    '[',
    ']'
  ]
  let seed = 42
  const next = () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
    return seed / 2 ** 32
  }
  let seen = 0
  for (let i = 0; i < 5_000; i++) {
    const target = `/${Array.from({ length: Math.floor(next() * 9) }, () => alphabet[Math.floor(next() * alphabet.length)]).join('')}`
    const once = parse(target)
    if (once === undefined) continue
    seen++
    const again = parse(once.uri)
    if (again?.uri !== once.uri) t.fail(`${target} became ${once.uri}, then ${again?.uri}`)
    if (/\/\.{1,2}(\/|$)/.test(once.path)) t.fail(`${target} kept a dot segment: ${once.path}`)
  }
  t.ok(seen > 2_000, `${seen} targets had a normal form`)
})

t.test('what is no target has none', async (t) => {
  for (const target of ['/a#b', '/%', '/%4', '/%zz', '/a\u0000b', '/a b', '/caf\u00e9', '', 'a/b', '*', '\\a']) {
    t.equal(parse(target), undefined, JSON.stringify(target))
  }
  t.equal(parse('*', 'OPTIONS')?.path, '*')
})

t.test('an absolute form counts only under its own Host', async (t) => {
  t.equal(parse('http://example.com/a?b')?.uri, '/a?b')
  t.equal(parse('HTTP://EXAMPLE.com')?.uri, '/')
  t.equal(parse('http://example.com?x=1')?.uri, '/?x=1')
  t.equal(parse('http://evil.test/a'), undefined)
  t.equal(parse('http://example.com:81/a'), undefined)
  t.equal(parse('http://user@example.com/a'), undefined)
  t.equal(parse('ftp://example.com/a'), undefined)
})

t.test('the query keeps its meaning', async (t) => {
  t.equal(parse('/?a=%41%2d&b=100%')?.query, 'a=A-&b=100%')
  t.equal(parse('/?')?.query, '')
  t.equal(parse('/')?.query, undefined)
  t.equal(parse('/?a=/../b')?.uri, '/?a=/../b')
  t.equal(parse('/?f[]=1')?.query, 'f[]=1')
  const parameters = parse('/?A=1&a=2&A=3&__proto__=x&b=%20+')?.parameters
  t.same(
    [...(parameters ?? [])],
    [
      ['A', ['1', '3']],
      ['a', ['2']],
      ['__proto__', ['x']],
      ['b', ['  ']]
    ]
  )
})

t.test('authority, host and port are parts of the URL', async (t) => {
  const target = parse('/p', 'GET', 'Example.COM:8080')
  t.match(target, { authority: 'Example.COM:8080', host: 'example.com', port: 8080, url: 'http://Example.COM:8080/p' })
  t.equal(parse('/p')?.port, undefined)
  t.equal(parse('/p', 'GET', '[::1]:80')?.host, '::1')
  for (const authority of ['', 'a b', 'a@b', 'a:b', '[::1', '[1.2.3.4]', 'a:70000', 'a/b', 'a?b']) {
    t.equal(parse('/', 'GET', authority), undefined, authority)
  }
})

t.test('a rewritten URL is held to the same form', async (t) => {
  t.equal(RequestTarget.fromUrl('https://example.com/a/../b?x')?.url, 'https://example.com/b?x')
  t.equal(RequestTarget.fromUrl('example.com/a'), undefined)
  t.equal(RequestTarget.fromUrl('http://exa mple.com/'), undefined)
  t.equal(RequestTarget.fromUrl('http://example.com/a b'), undefined)
})
