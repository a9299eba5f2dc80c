import t from 'tap'
import { makeFlow } from '../helpers/flow.js'
import { headersOf, Kit, outcomeOf } from './kit.js'

const kit = new Kit()
const at = (url: string) => makeFlow({ url })

function location(config: object, url: string): string | undefined {
  return headersOf(kit.action('redirect', config)(at(url))).location
}

function rewritten(config: object, url: string): string | undefined {
  const flow = at(url)
  const outcome = outcomeOf(kit.action('url-rewrite', config)(flow))
  return outcome === 'goes on' ? flow.request?.target.url : outcome
}

t.test('redirect replaces the first match in the full URL', async (t) => {
  const cases: readonly (readonly [object, string, string | undefined])[] = [
    [{ from: '/products', to: '/store/products' }, 'http://a.test/products?x=1', 'http://a.test/store/products?x=1'],
    [{ from: '/example(.*)', to: '/redirect$1' }, 'http://a.test/example/1?q=2', 'http://a.test/redirect/1?q=2'],
    [{ from: '/example(.*)', to: '/redirect$1' }, 'http://example.test/x', undefined],
    [{ from: '/.*', to: '/redirect' }, 'http://a.test/x/y?z', 'http://a.test/redirect'],
    [{ from: '/.*', to: '/redirect' }, 'http://a.test/redirect', undefined],
    [{ from: '^http://', to: 'https://' }, 'http://a.test/x', 'https://a.test/x'],
    [{ from: 'a\\.test', to: 'b.test' }, 'http://a.test/a.test', 'http://b.test/a.test'],
    [{ from: '//www\\.', to: '//' }, 'http://www.a.test/x', 'http://a.test/x'],
    [
      { from: '/api/v1/users\\?id=([0-9]+)', to: '/api/v2/users/$1/' },
      'http://a.test/api/v1/users?id=42',
      'http://a.test/api/v2/users/42/'
    ],
    [{ from: 'x', to: '$0$0$$$9' }, 'http://a.test/x', 'http://a.test/xx$'],
    [{ from: '/nothing', to: '/else' }, 'http://a.test/x', undefined],
    [{ from: '/${req.method}/', to: '/verb/' }, 'http://a.test/GET/x', 'http://a.test/verb/x'],
    [{ to: '/new?city=${req.method}' }, 'http://a.test/old', '/new?city=GET'],
    [{ to: 'https://b.test${req.url.path}' }, 'http://a.test/x', 'https://b.test/x'],
    [{ from: '^/old/(.*)$', to: '/new/$1' }, 'http://a.test/old/x?y=1', 'http://a.test/new/x?y=1'],
    [{ from: '^\\/old\\/(.*)$', to: '/new/${1}' }, 'http://a.test/old/x', 'http://a.test/new/x'],
    [{ from: '(?i)^/old/(.*)$', to: 'https://b.test/$1' }, 'http://a.test/OLD/x', 'https://b.test/x'],
    [{ from: '^(/old|/older)$', to: '/new' }, 'http://a.test/older', 'http://a.test/new'],
    [{ from: '^/$', to: '/app/' }, 'http://a.test/', 'http://a.test/app/'],
    [{ from: '^/go/(.*)$', to: '$1' }, 'http://a.test/go/.evil.test', 'http://a.test/.evil.test'],
    [{ from: '^/${req.method}/(.*)$', to: '/$1' }, 'http://a.test/GET/x', 'http://a.test/x'],
    [{ from: '^https?://www\\.(.+)$', to: 'https://${1}' }, 'http://www.a.test/x', 'https://a.test/x'],
    [
      { from: '^https?://(?P<host>[^/]+)/x', to: 'https://${host}.b.test/' },
      'http://a.test/x',
      'https://a.test.b.test/'
    ],
    [{ from: '^/(x)', to: '/${1}${req.method}$$' }, 'http://a.test/x', 'http://a.test/xGET$'],
    [{ to: '/same' }, 'http://a.test/same', undefined],
    [{ to: 'http://a.test/same' }, 'http://a.test/same', undefined]
  ]
  for (const [config, url, expected] of cases)
    t.equal(location(config, url), expected, `${JSON.stringify(config)} ${url}`)
})

t.test('text of the request gets into no host', async (t) => {
  const forged: readonly (readonly [object, string])[] = [
    [{ from: '^http://r\\.test/', to: 'https://new.test' }, 'http://r.test/.evil.test/'],
    [{ from: '^http://r\\.test/', to: 'https://' }, 'http://r.test/evil.test/'],
    [{ from: '^.*/go/(.*)$', to: '$1' }, 'http://r.test/go/https://evil.test/'],
    [{ from: '^.*/go/(.*)$', to: 'https:$1' }, 'http://r.test/go/evil.test/'],
    [{ from: '^.*/t/([^/]+)/(.*)$', to: 'https://$1/$2' }, 'http://r.test/t/evil.test/x'],
    [{ from: '^.*/t/([^/]+)/(.*)$', to: 'https://r.test$1/$2' }, 'http://r.test/t/y/x'],
    [{ from: '^.*/t/(.+)$', to: 'https://$1.r.test/' }, 'http://r.test/t/evil.test/x'],
    [{ from: '^.*/t/(.+)$', to: 'https://$1.r.test/' }, 'http://r.test/t/evil@x'],
    [{ to: 'https://r.test${req.url.query}' }, 'http://r.test/?.evil.test/'],
    [{ to: "https://${getQueryParam('h')[0]}/" }, 'http://r.test/?h=evil.test'],
    [{ to: "https://r.test${getQueryParam('h')[0]}" }, 'http://r.test/?h=@evil.test'],
    [{ to: "https://${getQueryParam('h')[0]}" }, 'http://r.test/?h=/evil.test'],
    [{ to: "${getQueryParam('next')[0]}" }, 'http://r.test/?next=https://evil.test/'],
    [{ to: "${getQueryParam('next')[0]}" }, 'http://r.test/?next=https:evil.test/']
  ]
  const refused = '400 URL_HOST_FORGED'
  for (const [config, url] of forged) {
    const about = `${JSON.stringify(config)} ${url}`
    t.equal(outcomeOf(kit.action('redirect', config)(at(url))), refused, about)
    t.equal(outcomeOf(kit.action('url-rewrite', config)(at(url))), refused, `rewrite ${about}`)
  }
  const honest: readonly (readonly [object, string, string])[] = [
    [{ from: '/old/(.*)', to: '$1' }, 'http://r.test/old/.evil.test/', 'http://r.test/.evil.test/'],
    [{ from: '/old/(.*)', to: '$1' }, 'http://r.test/old/:99/', 'http://r.test/:99/'],
    [{ from: '/old/(.*)', to: '$1' }, 'http://r.test/old/@evil.test/', 'http://r.test/@evil.test/'],
    [{ from: '/old', to: '' }, 'http://r.test/old.evil.test/', 'http://r.test/.evil.test/'],
    [{ from: '/old', to: 'x' }, 'http://r.test/old', 'http://r.test/x'],
    [{ from: '/old/(.*)', to: '/$1' }, 'http://r.test/old/.evil.test/', 'http://r.test/.evil.test/'],
    [{ from: '/old', to: '' }, 'http://r.test/old/x', 'http://r.test/x'],
    [{ from: '/old', to: '' }, 'http://r.test/old?x', 'http://r.test?x'],
    [{ from: '^http://([^/]+)/old/(.*)$', to: 'https://$1/new/$2' }, 'http://r.test/old/x', 'https://r.test/new/x'],
    [{ from: '^http://(.*)$', to: 'https://www.$1' }, 'http://r.test/x', 'https://www.r.test/x'],
    [{ from: '^http://r\\.test/', to: 'https://new.test/' }, 'http://r.test/.evil', 'https://new.test/.evil'],
    [{ from: '^.*/t/([^/]+)/(.*)$', to: 'https://$1.r.test/$2' }, 'http://r.test/t/shop/x', 'https://shop.r.test/x'],
    [{ to: 'https://${req.host}${req.url.uri}' }, 'http://r.test/x?y', 'https://r.test/x?y'],
    [{ to: 'https://${req.headers["host"][0]}/y' }, 'http://r.test/x', 'https://r.test/y'],
    [{ to: 'https://b.test${req.url.path}' }, 'http://r.test/@x', 'https://b.test/@x'],
    [{ to: "https://b.test/${getQueryParam('h')[0]}" }, 'http://r.test/?h=https://x', 'https://b.test/https://x'],
    [{ to: '${req.url.path}/y' }, 'http://r.test/a:b', '/a:b/y'],
    [{ to: '${req.url}/y' }, 'http://r.test/a', 'http://r.test/a/y']
  ]
  for (const [config, url, expected] of honest)
    t.equal(location(config, url), expected, `${JSON.stringify(config)} ${url}`)
})

t.test('redirect answers with its status, its fields and no body', async (t) => {
  const verdict = kit.action('redirect', { to: '/x', headers: { 'X-Why': '${req.method}' } })(at('http://a.test/'))
  t.same(verdict, { kind: 'respond', status: 302, headers: ['location', '/x', 'x-why', 'GET'] })
  for (const status_code of [301, 302, 303, 307, 308]) {
    t.equal(outcomeOf(kit.action('redirect', { to: '/x', status_code })(at('http://a.test/'))), `${status_code} -`)
  }
  for (const status_code of [300, 304, 200, 404]) {
    t.match(kit.problems('redirect', { to: '/x', status_code }), [/^error CONFIG_INVALID .*status_code/])
  }
  t.match(kit.problems('redirect', { to: '/x', headers: { Location: '/y' } }), [/^error CONFIG_INVALID .*Location/])
  t.match(kit.problems('redirect', { location: '/x' }), [/`to` is missing/, /unknown field "location"/])
})

t.test('a location never holds a line break, a space or a backslash, and never leaves the host unasked', async (t) => {
  const next = { to: "${getQueryParam('next')[0]}" }
  const cases: readonly (readonly [string, string])[] = [
    ['/a%0d%0aSet-Cookie:%20x', '/a%0D%0ASet-Cookie:%20x'],
    ['/caf%C3%A9', '/caf%C3%A9'],
    ['//evil.test/', '/evil.test/'],
    ['///evil.test/', '/evil.test/'],
    ['/%5Cevil.test', '/%5Cevil.test'],
    ['%5C%5Cevil.test', '%5C%5Cevil.test'],
    ['/%00', '/%00']
  ]
  for (const [sent, expected] of cases) t.equal(location(next, `http://a.test/?next=${sent}`), expected, sent)
  t.equal(location({ from: '^http://[^/]*(/.*)$', to: '$1' }, 'http://a.test//evil.test'), '/evil.test')
  t.equal(location({ to: '//cdn.test/x' }, 'http://a.test/'), '//cdn.test/x', 'what the policy says is meant')
})

t.test('redirect tells what matched', async (t) => {
  const flow = at('http://a.test/old/7')
  kit.action('redirect', { from: '/old/([0-9]+)', to: '/new/$1' })(flow)
  t.same(kit.read('actions.service.redirect', flow), {
    matches: ['/old/7', '7'],
    url: 'http://a.test/new/7',
    error: { code: '', message: '' }
  })
  kit.action('redirect', { from: '/none', to: '/new' })(flow)
  t.match(kit.read('actions.service.redirect', flow), { matches: [], url: 'http://a.test/old/7' })
})

t.test('url-rewrite replaces all matches and changes what follows', async (t) => {
  const cases: readonly (readonly [object, string, string])[] = [
    [{ from: '/products', to: '/products.php' }, 'http://a.test/products?x=1', 'http://a.test/products.php?x=1'],
    [
      { from: '/products/?([.*]+)?', to: '/products.php?query=$1' },
      'http://a.test/products/',
      'http://a.test/products.php?query='
    ],
    [
      { from: '/blog/([0-9]+)/([a-zA-Z]+)/', to: '/blog/index.php?p=$1&title=$2' },
      'http://a.test/blog/7/hello/',
      'http://a.test/blog/index.php?p=7&title=hello'
    ],
    [{ from: '/a', to: '/b' }, 'http://a.test/a/a/a?/a', 'http://a.test/b/b/b?/b'],
    [{ from: '^/a', to: '/b' }, 'http://a.test/a', 'http://a.test/b'],
    [{ from: '/x', to: '/a/../b/%7euser' }, 'http://a.test/x', 'http://a.test/b/~user'],
    [{ from: '/x', to: '/a b\u00e9' }, 'http://a.test/x', 'http://a.test/a%20b%C3%A9'],
    [{ to: '/all' }, 'http://a.test/x?y', 'http://a.test/all'],
    [{ from: 'x$', to: '' }, 'http://a.test/x', 'http://a.test/'],
    [{ from: '${req.method}', to: 'verb' }, 'http://a.test/GET/GET', 'http://a.test/verb/verb']
  ]
  for (const [config, url, expected] of cases)
    t.equal(rewritten(config, url), expected, `${JSON.stringify(config)} ${url}`)
  const flow = at('http://a.test/old?q=1')
  kit.actions([
    ['url-rewrite', { from: '/old', to: '/new' }],
    ['add-headers', { headers: { 'x-path': '${req.url.path} ${actions.service.url_rewrite.url}' } }]
  ])(flow)
  t.equal(flow.request?.headers.get('x-path'), '/new http://a.test/new?q=1')
  t.same(kit.read('actions.service.url_rewrite.matches', flow), ['/old'])
})

t.test('url-rewrite changes neither Host nor anything that chooses an upstream', async (t) => {
  const flow = at('http://a.test/x?to=evil.test')
  const asked = kit.action('url-rewrite', { from: '//a\\.test/x', to: "//${getQueryParam('to')[0]}/y" })(flow)
  t.equal(outcomeOf(asked), '400 URL_HOST_FORGED')
  kit.action('url-rewrite', { from: '//a\\.test/x', to: '//evil.test/y' })(flow)
  t.equal(flow.request?.target.uri, '/y?to=evil.test')
  t.same(flow.request?.headers.values('host'), ['a.test'])
  t.equal(flow.request?.head.authority, 'a.test')
  t.equal(flow.entry.host, 'app.example.com')
})

t.test('a result that is no URL fails closed, and line breaks stay encoded', async (t) => {
  t.equal(rewritten({ from: '^http:', to: 'ftp:' }, 'http://a.test/x'), '500 POLICY_EXPRESSION')
  t.equal(rewritten({ from: '^http://a\\.test', to: '' }, 'http://a.test'), 'http://a.test/', 'what is left is a path')
  t.equal(rewritten({ from: '//a', to: '//u:p@a' }, 'http://a.test/x'), '500 POLICY_EXPRESSION')
  t.equal(rewritten({ from: '/x', to: '/%zz' }, 'http://a.test/x'), '500 POLICY_EXPRESSION')
  t.equal(rewritten({ from: '/x', to: "/${getQueryParam('p')[0]}" }, 'http://a.test/x?p=%23'), '500 POLICY_EXPRESSION')
  const evil = 'http://a.test/x?p=%0d%0aHost:%20evil'
  t.equal(rewritten({ from: '/x.*', to: "/${getQueryParam('p')[0]}" }, evil), '500 POLICY_EXPRESSION')
  t.equal(
    rewritten({ from: '/x.*', to: "/x?q=${getQueryParam('p')[0]}" }, evil),
    'http://a.test/x?q=%0D%0AHost:%20evil'
  )
  t.equal(rewritten({ from: 'b', to: 'x'.repeat(4_000) }, `http://a.test/${'b'.repeat(100)}`), '500 POLICY_EXPRESSION')
})

t.test('patterns are RE2: refused when they are not, bounded when they come with the request', async (t) => {
  for (const type of ['redirect', 'url-rewrite']) {
    for (const from of ['(', 'a(?=b)', '(a)\\1', '*']) {
      t.match(kit.problems(type, { from, to: 'x' }), [/^error REGEX_INVALID .*config\.from/], `${type} ${from}`)
    }
    t.match(kit.problems(type, { from: 'x' }), [/^error CONFIG_INVALID .*to/])
    t.match(kit.problems(type, { to: 'x', typo: 1 }), [/^error CONFIG_INVALID .*typo/])
    const dynamic = kit.action(type, { from: "${getQueryParam('p')[0]}", to: 'x' })
    t.equal(outcomeOf(dynamic(at('http://a.test/?p=('))), '500 POLICY_EXPRESSION')
    const slow = at(`http://a.test/${'a'.repeat(5_000)}!?p=(a%2B)%2B$`)
    const started = performance.now()
    dynamic(slow)
    t.ok(performance.now() - started < 1_000, 'linear time')
  }
})

t.test('variables of other proxies are refused with what to write instead', async (t) => {
  for (const [to, hint] of [
    ['/x?$args', 'req.url.query'],
    ['/x/$uri', 'req.url.path'],
    ['https://$host/', 'req.url.host'],
    ['/x?y=$arg_name', "getQueryParam('name')"]
  ] as const) {
    const problems = kit.problems('url-rewrite', { from: '/x', to })
    t.match(problems, [/^error CONFIG_INVALID .*config\.to/], to)
    t.ok(problems[0]?.includes(hint), problems[0] ?? '')
  }
  t.same(kit.problems('url-rewrite', { from: '/(x)', to: '/$1?$$&$0' }), [])
  t.match(kit.problems('url-rewrite', { to: '/x#y' }), [/^error CONFIG_INVALID .*config\.to.*%23/])
  t.same(kit.problems('redirect', { to: '/x#y' }), [])
})

t.test('an empty URL is refused: where it is written, else where it comes out', async (t) => {
  for (const type of ['redirect', 'url-rewrite']) {
    for (const to of ['', ' ']) t.match(kit.problems(type, { to }), [/^error CONFIG_INVALID .*\.to: to is empty/], type)
    t.same(kit.problems(type, { from: '/old', to: '' }), [], 'what is found may be cut out')
    for (const config of [{ from: '^.*$', to: '' }, { to: "${getQueryParam('to')[0]}" }]) {
      const outcome = outcomeOf(kit.action(type, config)(at('http://a.test/x?to=')))
      t.equal(outcome, '500 POLICY_EXPRESSION', `${type} ${JSON.stringify(config)}`)
    }
  }
})

t.test('references and patterns of other programs work, or the right form is shown', async (t) => {
  const problems = (from: string, to: string) => kit.problems('redirect', { from, to })
  const foreign: Readonly<Record<string, string>> = {
    '/new/$&': '$0',
    '/new/{1}': '$1',
    '/new$request_uri': '${req.url.uri}',
    'https://{host}{uri}': '${req.url.host}',
    'https://${req.url.host}{uri}': '${req.url.uri}',
    '/new/\\1': '$1',
    '/new/\\g<name>': '$<name>',
    '/new/{R:1}': '$1',
    '/new/{re.old.1}': '$1',
    '/new/{http.regexp.old.name}': '$<name>',
    '/new/$(uri_captures[1])': '$1',
    'https://%{HTTP_HOST}/new': '${…} with an expression',
    '/new/%1': '$1'
  }
  for (const [to, right] of Object.entries(foreign)) {
    const found = problems('^/old/(?P<name>.*)$', to)
    t.match(
      found[0],
      /^error CONFIG_INVALID .*\.to: ".+" is (?:no reference to a group here|not a variable of this language); write /,
      to
    )
    t.ok(found[0]?.endsWith(`write ${right}`), String(found[0]))
  }
  for (const to of ['/a%20b', '/%1F', '/new/$1', '/new/${1}', '/new/${name}', '/$<name>'])
    t.same(problems('^/old/(?P<name>.*)$', to), [], to)
  t.match(problems('^/old/(.*)$', '/new/${2}'), [/^warning GROUP_MISSING .*no group for \$<2>/])
  t.match(problems('^/old/(.*)$', '/new/${name}'), [/^error EXPRESSION_UNKNOWN/])
  for (const from of ['^old/(.*)$', '^a\\.test/old', '^HTTP://a\\.test/', '/a b'])
    t.match(problems(from, '/new'), [/^warning LITERAL_NEVER_EQUAL .*\.from: no URL matches /], from)
  for (const from of [
    'old/(.*)$',
    '^https?://',
    '^/old',
    'a\\.test',
    '^http://a\\.test:8080/',
    '/old$',
    '(?i)old',
    '.*',
    '^'
  ])
    t.same(problems(from, '/new'), [], from)
})
