import t from 'tap'
import { normalPath, RequestTarget, withoutParameters } from '../../src/flow/target.js'

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
  t.match(target, { authority: 'example.com:8080', host: 'example.com', port: 8080, url: 'http://example.com:8080/p' })
  t.equal(parse('/p')?.port, undefined)
  for (const written of ['Example.COM:80', 'example.com:', 'EXAMPLE.com.', 'example.com.:080']) {
    t.match(
      parse('/p', 'GET', written),
      { authority: 'example.com', port: undefined, url: 'http://example.com/p' },
      written
    )
  }
  const secure = parse('/p', 'GET', 'example.com:80')?.in('strict', 'https')
  t.match(secure, { authority: 'example.com:80', port: 80, url: 'https://example.com:80/p' }, 'the default of a scheme')
  t.match(parse('/p', 'GET', 'a.test:443')?.in('strict', 'https'), { authority: 'a.test', port: undefined, path: '/p' })
  t.match(parse('/a//../b', 'GET', 'a.test:443')?.in('strict', 'https'), {
    path: '/b',
    scheme: 'https',
    host: 'a.test'
  })
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

t.test('the strict form merges slashes before it resolves dot segments', async (t) => {
  const forms: [came: string, strict: string][] = [
    ['/', '/'],
    ['//', '/'],
    ['/a/b', '/a/b'],
    ['//admin', '/admin'],
    ['/x//..//admin', '/admin'],
    ['/a///b//', '/a/b/'],
    ['/./%2e//admin', '/admin'],
    ['/%61dmin', '/admin'],
    ['/admin;x', '/admin;x'],
    ['/a/...;/b', '/a/...;/b'],
    ['/caf%c3%a9', '/caf%C3%A9'],
    ['/%e4%b8%ad', '/%E4%B8%AD'],
    ['/100%25', '/100%25'],
    ['/%252fadmin', '/%252fadmin']
  ]
  for (const [came, strict] of forms) {
    const target = parse(came)?.in('strict')
    t.match(target, { path: strict }, came)
    t.match(parse(`${came}?q=//%2f`)?.in('strict'), { uri: `${strict}?q=//%2F` }, 'the query is left as it is')
  }
})

t.test('the strict form says what it refuses', async (t) => {
  const refused: Record<string, string[]> = {
    'encoded-slash': [
      '/admin%2fx',
      '/a/b%2F../c',
      '/a%2f/../b',
      '/%c0%afadmin',
      '/%c1%9cx',
      '/%e0%80%afx',
      '/%f0%80%80%afx'
    ],
    backslash: ['/admin%5cx', '/a\\b', '/a\\..\\b'],
    'encoded-control': ['/a%00', '/a%0d%0aX', '/%1fx', '/%7f', '/a%09'],
    'dot-parameters': [
      '/x/..;/admin',
      '/x/.;/admin',
      '/x/..;a=b/admin',
      '/..;',
      '/x/%2e%2e;/admin',
      '/x/..%3b/admin',
      '/x/..%3B/../y',
      '/;/admin',
      '/;x=1/admin',
      '/%3B/admin',
      '/%3bx/admin',
      '/;a;b/admin',
      '//;/admin',
      '/a/;x/b',
      '/;/../admin',
      '/;/'
    ]
  }
  for (const [problem, targets] of Object.entries(refused)) {
    for (const target of targets) {
      t.equal(parse(target)?.in('strict'), problem, target)
      t.type(parse(target)?.in('lenient'), RequestTarget, `${target} has a lenient form`)
    }
  }
  t.match(parse('*', 'OPTIONS')?.in('strict'), { path: '*' })
  // Behind the last slash they are the end of a page's own address, as some servers write it.
  for (const path of ['/;jsessionid=1', '/a/;x', '/a;x/b', '/a%3Bx/b']) t.match(parse(path)?.in('strict'), { path })
})

t.test('the strict form is a fixed point, and one that a decoder cannot lead elsewhere', async (t) => {
  const alphabet = ['/', '/', '.', '..', ';', '%2e', '%2F', '%5c', '\\', '%00', '%3b', 'a', '%41', '%25', '%c0%ae', '%']
  let seed = 7
  const next = () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
    return seed / 2 ** 32
  }
  let seen = 0
  for (let i = 0; i < 20_000; i++) {
    const came = `/${Array.from({ length: Math.floor(next() * 7) }, () => alphabet[Math.floor(next() * alphabet.length)]).join('')}`
    const target = parse(came)?.in('strict')
    if (!(target instanceof RequestTarget)) continue
    seen++
    const again = parse(target.uri)?.in('strict')
    if (!(again instanceof RequestTarget) || again.uri !== target.uri)
      t.fail(`${came} became ${target.uri}, then another`)
    const decoded = target.path.replace(/%(..)/g, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16)))
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be there
    if (/\/\/|\\|\/;[^/]*\/|\/\.{1,2}(?:[/;]|$)|[\x00-\x1f\x7f]/.test(decoded)) t.fail(`${came} kept ${target.path}`)
    if (decoded.split('/').length !== target.path.split('/').length) t.fail(`${came}: other segments when decoded`)
    const config = normalPath(target.path, 'strict')
    if (!('path' in config) || config.path !== target.path) t.fail(`${target.path} is another path in a configuration`)
  }
  t.ok(seen > 2_000, `${seen} targets had a strict form`)
})

t.test('a path of a configuration has the form that a request for it has', async (t) => {
  const paths: [text: string, strict: string][] = [
    ['/admin/', '/admin/'],
    ['//admin', '/admin'],
    ['/ü', '/%C3%BC'],
    ['/sp ace', '/sp%20ace'],
    ['/😀', '/%F0%9F%98%80'],
    ['/%7Eu', '/~u'],
    ['/a/../b', '/b']
  ]
  for (const [text, strict] of paths) t.same(normalPath(text, 'strict'), { path: strict }, text)
  t.same(normalPath('/low%2fx', 'lenient'), { path: '/low%2Fx' })
  t.same(normalPath('//a', 'lenient'), { path: '//a' })
  t.same(normalPath('/low%2fx', 'strict'), { problem: 'encoded-slash' })
  t.same(normalPath('/a\tb', 'strict'), { problem: 'encoded-control' })
  for (const text of ['', 'a', '/q?x', '/a#b', '/%zz', '/%', '/\ud800', '*']) {
    t.same(normalPath(text, 'strict'), { problem: 'not-a-path' }, JSON.stringify(text))
    t.same(normalPath(text, 'lenient'), { problem: 'not-a-path' }, JSON.stringify(text))
  }
})

t.test('parameters can be taken from a path', async (t) => {
  t.equal(withoutParameters('/admin;x'), '/admin')
  t.equal(withoutParameters('/a;x=1/b%3By/c'), '/a/b/c')
  t.equal(withoutParameters('/a/b'), '/a/b')
  t.equal(withoutParameters('/;x/admin'), '/admin')
})
