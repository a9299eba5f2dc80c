import t from 'tap'
import { policyProblems } from '../../../src/app/policy-check.js'
import { offline, policyServices } from '../../../src/app/services.js'
import { readServerUrl, serverUrl } from '../../../src/capabilities/site-file/declared/server-url.js'
import { newVersionKey, readSiteFile, siteChanges } from '../../../src/capabilities/site-file/declared/site-file.js'
import { type SiteFileInput, uncheckedPolicies } from '../../../src/capabilities/site-file/declared/site-input.js'
import { actions } from '../../../src/features/registry.js'
import { systemClock } from '../../../src/lib/clock.js'
import { makeServerCertificate } from '../../../src/lib/self-signed.js'
import { readListener } from '../../../src/options/values.js'

const check = policyProblems(policyServices(offline(actions)), actions)
const versionKey = newVersionKey()
const DENY = 'on_http_request:\n  - actions:\n      - type: deny\n'

/** Reads a file whose neighbours are `files`, by their names. */
function read(text: string, files: Readonly<Record<string, string>> = {}, about: Partial<SiteFileInput> = {}) {
  return readSiteFile({
    source: 'sluice.yaml',
    folder: '/etc/sluice',
    text,
    environment: { TOKEN: 'from-the-environment' },
    async readFile(path) {
      const found = files[path.replace('/etc/sluice/', '')]
      if (found === undefined) throw Object.assign(new Error(path), { code: 'ENOENT' })
      return found
    },
    policyProblems: check,
    listFolder: async () => [],
    readListener,
    opened: new Map([['127.0.0.1:4040', 'the option api.listen']]),
    clock: systemClock,
    versionKey,
    zone: 'localhost',
    refuseExpired: true,
    policed: new Set(),
    ...about
  })
}

const sorted = (map: ReadonlyMap<string, string> | undefined) => [...(map ?? [])].sort(([a], [b]) => (a < b ? -1 : 1))
const NONE = { agreed: false, tls: false }

/** The problems as `file:line:column CODE message`. */
async function problemsOf(...given: Parameters<typeof read>): Promise<string[]> {
  const { problems, file } = await read(...given)
  const all = problems.flatMap((one) =>
    one.problems.map(({ line, column, code, message }) => `${one.source}:${line}:${column} ${code} ${message}`)
  )
  t.equal(
    file === undefined,
    problems.some((one) => one.problems.some(({ severity }) => severity === 'error'))
  )
  return all
}

t.test('names with underscores are taken, and get no managed certificate', async (t) => {
  const text =
    'acme: { agree_to_terms: true }\nlisteners: [https://127.0.0.1:8443]\nsites:\n  my_app.example.com: http://stack_web:3000\n'
  t.match(await problemsOf(text), [/CERTIFICATE_NONE .*my_app.example.com.*has an underscore, and public authorities/])
  t.same(
    await problemsOf(text.replace('http://stack_web:3000', '{ backend: http://stack_web:3000, certificate: none }')),
    []
  )
})

t.test('a service of the DNS is a server, beside listeners too', async (t) => {
  const sites = 'sites:\n  a.test: srv+http://_http._tcp.web.internal\n'
  for (const text of [sites, `listeners: [8081]\n${sites}`]) t.same(await problemsOf(text), [], text)
  t.match(await problemsOf(sites.replace('_http._tcp.web.internal', 'a b')), [/FIELD_INVALID/])
})

t.test('listeners may be ports, or hosts and ports', async (t) => {
  const { file } = await read('listeners:\n  - 8081\n  - :8082\n  - localhost:3000\nsites: {}\n')
  t.same(
    [...(file?.units.keys() ?? [])],
    ['0.0.0.0:8081', '0.0.0.0:8082', 'localhost:3000'].map((at) => `listener:${at}`)
  )
  t.match(await problemsOf('listeners: [8081, 443]\nsites: {}\n'), [
    /:1:19 FIELD_INVALID .*https:\/\/0\.0\.0\.0:443, or http/
  ])
})

t.test(
  'a host may be every host, have one star, or letters beyond ASCII; other patterns are refused with the form',
  async (t) => {
    const site = (host: string) => `sites: { ${JSON.stringify(host)}: { backend: http://127.0.0.1:3 } }\n`
    const hosts: [written: string, host: string, port?: number][] = [
      ['*', '*'],
      ['*:9443', '*', 9443],
      ['api.*.example.com', 'api.*.example.com'],
      ['bücher.example', 'xn--bcher-kva.example'],
      ['Bücher.example:8443', 'xn--bcher-kva.example', 8443]
    ]
    for (const [written, host, port = 443] of hosts) {
      const { file, problems } = await read(site(written))
      t.same(problems, [], written)
      t.match(
        [...(file?.units.values() ?? [])].filter(({ kind }) => kind === 'edge'),
        [{ hosts: [{ host, port }] }]
      )
    }
    const refused: [written: string, message: RegExp][] = [
      ['api-*.example.com', /write "\*\.example\.com" and let a policy look at req\.host/],
      ['*.*.example.com', /one "\*" only; write "\*\.example\.com"/],
      ['example.*', /before at least two labels, or alone for every host/],
      ['*.com', /before at least two labels/],
      ['~^www\\..+$', /must be a host name/],
      ['bü cher.example', /must be a host name|no name that the DNS can have/]
    ]
    for (const [written, message] of refused) t.match(await problemsOf(site(written)), [message], written)
    const twice = 'sites: { bücher.example: http://127.0.0.1:3, xn--bcher-kva.example: http://127.0.0.1:3 }\n'
    t.match(await problemsOf(twice), [/ALREADY_EXISTS .*taken by site bücher\.example/])
    const secure = { process: { agreed: true, tls: true } }
    t.match(await problemsOf(site('*'), {}, secure), [/CERTIFICATE_NONE .*for \*.*stands for every host/])
    t.match(await problemsOf(site('api.*.example.com'), {}, secure), [/CERTIFICATE_NONE .*star behind other labels/])
    t.match(await problemsOf(site('bücher.localhost'), {}, secure), [
      /no certificate for bücher\.localhost \(xn--bcher-kva\.localhost\)/
    ])
  }
)

t.test('keys that begin with x- are ignored, and a file of nothing else is empty', async (t) => {
  const sites =
    'sites:\n  a.test:\n    backend: web\n    compression: true\nbackends:\n  web:\n    servers:\n      - http://127.0.0.1:3\n'
  const plain = (await read(sites)).file
  const same = [
    `x-list: [1, { a: b }]\nx-text: no key\n${sites}`,
    `x-site: &site\n  backend: web\n  compression: true\n${sites.replace('\n    backend: web\n    compression: true', ' *site')}`,
    `x-site: &site { compression: true }\n${sites.replace('    compression: true', '    <<: *site')}`
  ]
  for (const text of same) t.same((await read(text)).file?.contents, plain?.contents, text)
  t.match(await problemsOf('x-site: { backend: web }\n'), [/DOCUMENT_EMPTY the file says nothing/])
  t.match(await problemsOf(`xsite: 1\n${sites}`), [/FIELD_UNKNOWN a site file has no "xsite"/])
})

t.test('variables of the environment are put into hosts, URLs and listeners, and nowhere else', async (t) => {
  const environment = { HOST: 'a.test', UP: '10.0.0.1', PORT: '8081', EMPTY: '', LINE: 'b.test\n', A: 'x' }
  const text = `listeners:
  - http://127.0.0.1:\${PORT}
  - listen: "\${NONE:-127.0.0.1:8082}"
    public_port: \${PORT}
sites:
  \${HOST}: http://\${UP}:3000
  \${EMPTY:-c.test}:
    hosts:
      - \${LINE}
    routes:
      /: web
      /x/:
        backend:
          servers:
            - url: http://\${UP}/\${A}
    policy:
      on_http_request:
        - actions:
            - type: custom-response
              config:
                body: \${req.method} \${A}
backends:
  web:
    servers:
      - http://\${UP}:1
  fixed:
    response:
      body: \${A}
`
  const { file, problems } = await read(text, {}, { environment, policyProblems: uncheckedPolicies })
  t.same(problems, [])
  const whole = await read(`${text}x-a: &a 1\nx-b: *a\n`, {}, { environment, policyProblems: uncheckedPolicies })
  t.same(sorted(whole.file?.contents), sorted(file?.contents), 'site by site and as a whole')
  const units = [...(file?.units.values() ?? [])]
  const kinds = (kind: string) => units.filter((unit) => unit.kind === kind)
  t.match(kinds('listener'), [{ port: 8081 }, { port: 8082, publicPort: 8081 }])
  t.match(kinds('edge'), [{ hosts: [{ host: 'a.test' }] }, { hosts: [{ host: 'c.test' }, { host: 'b.test' }] }])
  t.match(kinds('policy'), [{ text: /body: \$\{req\.method\} \$\{A\}/ }])
  const upstreams = kinds('upstream') as readonly { readonly form: string; readonly pathPrefix?: string }[]
  t.same(new Set(upstreams.map(({ pathPrefix }) => pathPrefix)), new Set([undefined, '/x']))
  t.match(
    upstreams.find(({ form }) => form === 'response'),
    { body: '${A}' }
  )
})

t.test('a variable that is missing, empty or none is an error with its place', async (t) => {
  const text = (host: string, url = 'http://127.0.0.1:3') => `sites:\n  ${host}:\n    backend: ${url}\n`
  const about = { environment: { EMPTY: ' ' } }
  t.match(await problemsOf(text('${GONE}.test'), {}, about), [
    /:2:3 VARIABLE_MISSING the environment variable GONE is not/
  ])
  t.match(await problemsOf(text('${EMPTY}.test'), {}, about), [/:2:3 VARIABLE_MISSING the environment variable EMPTY/])
  t.match(await problemsOf(text('a.test', 'http://${GONE}:3'), {}, about), [/:3:14 VARIABLE_MISSING/])
  t.match(await problemsOf(text('a.test', 'http://${1}:3'), {}, about), [
    /:3:14 FIELD_INVALID "\$\{1\}" is no variable/
  ])
  t.match(await problemsOf(text('a.test', 'http://${GONE'), {}, about), [
    /:3:14 FIELD_INVALID "\$\{GONE" is no variable/
  ])
  const path = 'sites:\n  a.test:\n    routes:\n      /${HOME}/: http://127.0.0.1:3\n'
  t.match(await problemsOf(path, {}, about), [/:4:7 FIELD_INVALID .*they stand in hosts, URLs and listeners alone/])
  const listeners = 'listeners:\n  - listen: ${GONE}\nsites: {}\n'
  t.match(await problemsOf(listeners, {}, about), [/:2:13 VARIABLE_MISSING/], 'once')
  t.match(await problemsOf('sites: { a.test: http://${GONE}:3 }\n'), [/:1:\d+ SYNTAX .*needs quotes inside brackets/])
})

t.test('a site with a port that no listener has is an error, with the form without one', async (t) => {
  const text = (listeners: string, host = 'admin.test:9443') =>
    `${listeners}sites:\n  shop.test: { backend: http://127.0.0.1:3, hosts: ["${host}"] }\n`
  const unserved =
    /:3:53 PORT_UNSERVED no listener has port 9443; open one, such as https:\/\/0\.0\.0\.0:9443, or write "admin.test" without/
  t.match(await problemsOf(text('listeners: [http://127.0.0.1:8081]\n')), [unserved])
  const known = { process: { ...NONE, ports: [8080, 9444] } }
  t.match(await problemsOf(text('\n'), {}, known), [unserved])
  const served: [listeners: string, about: Partial<SiteFileInput>, host?: string][] = [
    ['listeners: [http://127.0.0.1:9443]\n', {}],
    ['listeners: ["http://127.0.0.1:8443?public_port=9443"]\n', {}],
    ['listeners: [http://127.0.0.1:8443]\n', { process: { ...NONE, ports: [9443] } }],
    ['', {}],
    ['listeners: [http://127.0.0.1:8443]\n', {}, 'admin.test:443'],
    ['listeners: [http://127.0.0.1:8443]\n', {}, 'api.internal:9443']
  ]
  for (const [listeners, about, host] of served)
    t.same(await problemsOf(text(listeners, host), {}, about), [], listeners)
  t.match(await problemsOf(text('listeners: [http://127.0.0.1:8443, nonsense]\n')), [
    /1:36 FIELD_INVALID listeners must be/
  ])
})

t.test('sites, routes and backends become the units that the API would make', async (t) => {
  const { file, problems } = await read(
    `listeners: [http://127.0.0.1:8081]
sites:
  Shop.example.com:
    routes:
      /: web
      /api/: { backend: api, compression: true }
      /exact: { backend: web }
backends:
  web: { servers: [http://10.0.0.5:3000, { url: https://10.0.0.6, weight: 3 }] }
  api: { servers: ['http://127.0.0.1:4000'] }
`
  )
  t.same(problems, [])
  const units = [...(file?.units ?? [])]
  const edge = units.find(([, unit]) => unit.kind === 'edge')?.[1]
  t.match(edge, { kind: 'edge', hosts: [{ host: 'shop.example.com', port: 443 }] })
  const routes = units.map(([, unit]) => unit).filter((unit) => unit.kind === 'route')
  t.match(
    routes.map(({ match, path }) => [match, path]),
    [
      ['prefix', '/'],
      ['prefix', '/api'],
      ['exact', '/exact']
    ]
  )
  t.ok(routes.every((route) => edge?.kind === 'edge' && route.edge === edge.id))
  t.ok(routes[1]?.modules.compression)
  const web = units.find(([key]) => key === routes[0]?.upstream)?.[1]
  t.match(web, { form: 'weighted', members: [{ weight: 1 }, { weight: 3 }] })
  const servers = web?.kind === 'upstream' && web.form === 'weighted' ? web.members : []
  t.match(
    servers.map(({ upstream }) => file?.units.get(upstream)),
    [
      { form: 'address', protocol: 'http', host: '10.0.0.5', port: 3000 },
      { form: 'address', protocol: 'https', host: '10.0.0.6', port: 443 }
    ]
  )
  t.match(file?.units.get('listener:127.0.0.1:8081'), { kind: 'listener', tls: false, port: 8081 })
})

t.test('a backend may stand where it is used: a URL, a list of servers, or a map', async (t) => {
  const { file, problems } = await read(
    `sites:
  blog.test: http://127.0.0.1:3002
  wiki.test: 127.0.0.1:3002
  shop.test: [http://10.0.0.5:3000, http://10.0.0.6:3000]
  api.test:
    routes:
      /: http://127.0.0.1:3002
      /a/: { backend: { servers: [http://127.0.0.1:1, http://127.0.0.1:2], balance: failover } }
      /b/: { backend: { backends: [web] } }
tcp: { '127.0.0.1:5432': 'tcp://10.0.0.7:5432' }
backends: { web: { servers: [http://127.0.0.1:9] } }
`
  )
  t.same(problems, [])
  const units = [...(file?.units ?? [])]
  const upstreamsOf = (host: string) => {
    const [, edge] =
      units.find(([, unit]) => unit.kind === 'edge' && (unit.hosts as readonly { host: string }[])[0]?.host === host) ??
      []
    const routes = units.flatMap(([, unit]) =>
      unit.kind === 'route' && edge?.kind === 'edge' && unit.edge === edge.id ? [unit] : []
    )
    return routes.map(({ upstream }) => upstream ?? '')
  }
  const form = (key: string | undefined) => {
    const unit = file?.units.get(key ?? '')
    return unit?.kind === 'upstream' ? unit.form : undefined
  }
  const [[blog], [wiki], [shop], api] = [
    upstreamsOf('blog.test'),
    upstreamsOf('wiki.test'),
    upstreamsOf('shop.test'),
    upstreamsOf('api.test')
  ]
  t.equal(form(blog), 'address')
  t.equal(api[0], blog, 'one URL is one backend')
  t.match(file?.units.get(wiki ?? ''), { protocol: 'http', host: '127.0.0.1', port: 3002 })
  t.equal(form(shop), 'weighted')
  t.same(api.slice(1).map(form), ['failover', 'weighted'])
  t.same(
    await problemsOf(
      'sites:\n  a.test: htp://127.0.0.1:1\n  b.test: { backend: { servers: [http://127.0.0.1:1], balanc: x } }\n'
    ).then((lines) => lines.map((line) => line.replace(/; it has .*$/, ''))),
    [
      'sluice.yaml:2:11 FIELD_INVALID "htp" is no scheme of a server; write http, https, h2c, h2, grpc, grpcs or tcp',
      'sluice.yaml:3:55 FIELD_UNKNOWN a backend has no "balanc"; did you mean "balance"?'
    ]
  )
})

t.test('a policy may stand in the file; its problems have their places there', async (t) => {
  const text = `sites:
  a.test:
    backend: http://127.0.0.1:1
    policy:
      on_http_request:
        - actions:
            - type: log
              config: { metadata: { from: here } }

            - type: deny
    routes:
      /b/: { policy: { on_http_request: [{ actions: [{ type: deny }] }] }, backend: http://127.0.0.1:2 }
tcp:
  127.0.0.1:5432: { backend: tcp://127.0.0.1:3, policy: { on_tcp_connect: [{ actions: [{ type: close-connection }] }] } }
`
  const { file, problems } = await read(text)
  t.same(
    problems.flatMap((one) => one.problems.map(({ severity }) => severity)).filter((severity) => severity === 'error'),
    []
  )
  const units = [...(file?.units.values() ?? [])]
  t.same(units.flatMap((unit) => (unit.kind === 'policy' ? [unit.source] : [])).sort(), [
    'sluice.yaml:12',
    'sluice.yaml:14',
    'sluice.yaml:5'
  ])
  const wrong = text.replace('- type: deny\n', '- type: denny\n').replace('type: deny }] }] }', 'type: denny }] }] }')
  t.match(await problemsOf(wrong), [
    /^sluice\.yaml:10:21 ACTION_UNKNOWN .*"deny"/,
    /^sluice\.yaml:12:62 ACTION_UNKNOWN .*"deny"/
  ])
  t.match(await problemsOf('sites: { a.test: { backend: http://127.0.0.1:1, policy: {} } }\n'), [
    /^sluice\.yaml:1:57 DOCUMENT_EMPTY/
  ])
})

t.test('the policy of a site runs before that of a route, and both are told by their files', async (t) => {
  const { file } = await read(
    'sites:\n  a.test:\n    policy: site.yaml\n    routes:\n      /: { backend: web, policy: route.yaml }\n' +
      'backends: { web: { servers: ["http://127.0.0.1:1"] } }\n',
    { 'site.yaml': DENY, 'route.yaml': DENY }
  )
  const units = [...(file?.units.values() ?? [])]
  const policies = units.filter((unit) => unit.kind === 'policy')
  t.same(policies.map(({ source }) => source).sort(), ['route.yaml', 'site.yaml'])
  const route = units.find((unit) => unit.kind === 'route')
  const order = ((route?.modules.traffic_policy ?? []) as { policy: string }[]).map(({ policy }) =>
    file?.units.get(policy)
  )
  t.match(order, [{ source: 'site.yaml' }, { source: 'route.yaml' }])
})

t.test('every problem is told at once, with its place and what may be meant', async (t) => {
  t.same(
    await problemsOf(
      `listeners: [htp://x, 'http://127.0.0.1:4040', 'http://127.0.0.1:5432']
site: {}
sites:
  a.test: { backend: wbe, polcy: x }
  b.test: { backend: web, policy: gone.yaml }
  c.test: { backend: web, policy: broken.yaml }
  d.test: {}
  e.test: { backend: web, circuit_breaker: { volume_threshold: many } }
tcp:
  127.0.0.1:5432: web
backends:
  web: { servers: [http://127.0.0.1:1], balance: random, health: { path: x } }
  api: { servers: ['unix://tmp', 'http://127.0.0.1:3/path?x'] }
`,
      { 'broken.yaml': DENY.replace('deny', 'denny') }
    ).then((lines) => lines.map((line) => line.replace(/; (it has|the fields are) .*$/, ''))),
    [
      'sluice.yaml:1:13 FIELD_INVALID listeners must be URLs such as http://0.0.0.0:8081 or https://0.0.0.0:8443?public_port=443&proxy_protocol=on, or ports',
      'sluice.yaml:1:22 PORT_CLASH 127.0.0.1:4040 is opened by the option api.listen already',
      'sluice.yaml:1:47 PORT_CLASH 127.0.0.1:5432 is opened by TCP edge 127.0.0.1:5432 in line 10 already',
      'sluice.yaml:2:1 FIELD_UNKNOWN a site file has no "site"; did you mean "sites"?',
      'sluice.yaml:4:22 NAME_UNKNOWN there is no backend "wbe"; did you mean "web"?',
      'sluice.yaml:4:27 FIELD_UNKNOWN a site has no "polcy"; did you mean "policy"?',
      'sluice.yaml:5:35 FILE_UNREADABLE the policy "gone.yaml" cannot be read: there is no such file (ENOENT); correct the path',
      'sluice.yaml:7:3 FIELD_REQUIRED a site needs a backend, routes, or a policy that answers',
      'sluice.yaml:8:64 FIELD_INVALID volume_threshold must be a whole number from 0 to 4294967295',
      'sluice.yaml:12:50 NOT_BUILT balance: random is not built in this version; write weighted, round_robin, least_requests, hash or failover',
      'sluice.yaml:12:74 FIELD_INVALID path must begin with / and hold visible ASCII without #',
      'sluice.yaml:13:20 FIELD_INVALID a Unix domain socket has an absolute path, such as http://127.0.0.1:3000, http://127.0.0.1:3000/base or http://unix:/run/app.sock',
      'sluice.yaml:13:34 FIELD_INVALID a server is a URL without a query, such as http://127.0.0.1:3000, http://127.0.0.1:3000/base or http://unix:/run/app.sock',
      'broken.yaml:3:15 ACTION_UNKNOWN there is no action "denny"; did you mean "deny"?'
    ]
  )
  const other = await problemsOf('sites:\n  a.test: { upstream: x, proxy_pass: x, server_name: a }\n')
  t.match(
    other.join('\n'),
    /no "upstream"; did you mean "backend"\?.*\n.*no "proxy_pass"; did you mean "backend"\?.*\n.*did you mean "hosts"/
  )
})

t.test('a port on every address is in the way of the same port on one', async (t) => {
  t.same(
    await problemsOf(
      'listeners: ["http://0.0.0.0:8081", "http://127.0.0.1:8081", "http://127.0.0.2:8082", "http://127.0.0.1:8082", "http://0.0.0.0:0"]\nsites: {}\n'
    ),
    ['sluice.yaml:1:36 PORT_CLASH 127.0.0.1:8081 is opened by the listener in line 1 already']
  )
})

t.test('a backend is one thing, and other settings of files are refused beside it', async (t) => {
  const backends = `backends:
  a: { servers: [http://127.0.0.1:1] }
  b: { backends: [a], servers: [http://127.0.0.1:2] }
  c: { backends: [a], index: [x.html] }
  d: { files: ./pub, health: { path: / }, balance: hash }
`
  t.same(await problemsOf(backends), [
    'sluice.yaml:3:3 CONFLICTING_FIELDS a backend must have exactly one of servers, labels, response, files, backends',
    'sluice.yaml:4:23 CONFLICTING_FIELDS index goes with files alone',
    'sluice.yaml:5:22 CONFLICTING_FIELDS health goes with servers alone',
    'sluice.yaml:5:43 CONFLICTING_FIELDS balance goes with servers, labels or backends alone'
  ])
})

t.test('settings that would have no effect are refused', async (t) => {
  t.same(
    await problemsOf(`backends:
  a: { response: { status_code: 204 }, health: { path: / } }
  b: { servers: [http://127.0.0.1:1, http://127.0.0.1:2], balance: failover, slow_start: 5 }
  c: { backends: [a, d], timeouts: { connect: 1 } }
  d: { servers: [http://127.0.0.1:1], tls: { server_name: x.test } }
  e: { servers: [https://127.0.0.1:1], tls: { server_name: x.test }, http2: true }
`).then((lines) => lines.map((line) => line.replace(/; (it has|the fields are) .*$/, ''))),
    [
      'sluice.yaml:2:40 CONFLICTING_FIELDS health goes with servers alone',
      'sluice.yaml:3:78 CONFLICTING_FIELDS slow_start goes with a balance that shares traffic alone',
      'sluice.yaml:4:26 CONFLICTING_FIELDS timeouts goes with servers alone',
      'sluice.yaml:5:39 CONFLICTING_FIELDS tls does not go with http://',
      'sluice.yaml:6:70 FIELD_UNKNOWN a backend has no "http2"'
    ]
  )
})

t.test('balance, hash key and sticky cookie are as in the API, with servers, backends and labels alike', async (t) => {
  const { file } = await read(`backends:
  two:
    servers: [http://127.0.0.1:1, http://127.0.0.1:2]
    balance: hash
    hash_key: "req.headers['x-user'][0]"
  one: { servers: [http://127.0.0.1:3], sticky: { cookie: at, ttl: 3600, same_site: none } }
  agents: { labels: { app: web }, balance: least_requests, sticky: { path: /app } }
  solo: { servers: [http://127.0.0.1:4] }
  group: { backends: { solo: 1, agents: 2 }, balance: weighted, sticky: {} }
`)
  const units = [...(file?.units.values() ?? [])].filter((unit) => unit.kind === 'upstream')
  const of = (form: string) => units.filter((unit) => unit.form === form)
  t.match(of('weighted'), [
    { members: [{ weight: 1 }, { weight: 1 }], balance: 'hash', hashKey: "req.headers['x-user'][0]" },
    { members: [{ weight: 1 }], sticky: { cookie: 'at', ttl: 3_600_000, path: '/', sameSite: 'None' } },
    { members: [{ weight: 1 }, { weight: 2 }], sticky: { cookie: /^sluice-/, sameSite: 'Lax' } }
  ])
  t.match(of('tunnels'), [{ balance: 'least_requests', sticky: { cookie: /^sluice-/, path: '/app', sameSite: 'Lax' } }])
})

t.test('what is wrong with a balance has its place', async (t) => {
  t.same(
    await problemsOf(`backends:
  a: { servers: [http://127.0.0.1:1, http://127.0.0.1:2], balance: hash, hash_key: req.heders }
  b: { labels: { app: web }, balance: failover }
  c: { servers: [http://127.0.0.1:1], balance: hash, hash_key: "req.headers['x']" }
  d: { response: { status_code: 204 }, sticky: {} }
  e: { servers: [http://127.0.0.1:1, http://127.0.0.1:2], balance: failover, sticky: {} }
  f: { servers: [http://127.0.0.1:1, http://127.0.0.1:2], hash_key: req.method }
  g: { labels: { app: web }, sticky: { cookie: "a b" } }
  h: { servers: [http://127.0.0.1:1, http://127.0.0.1:2], balance: hash }
`),
    [
      'sluice.yaml:2:74 FIELD_INVALID hash_key at 1: there is no variable req.heders; did you mean req.headers?',
      'sluice.yaml:3:39 FIELD_INVALID balance: failover does not go with labels; write round_robin, least_requests or hash',
      'sluice.yaml:4:54 FIELD_INVALID hash_key at 1: must be one value, and this is of type list<string>; write [0] behind it for the first one',
      'sluice.yaml:5:40 CONFLICTING_FIELDS sticky goes with servers, labels or backends alone',
      'sluice.yaml:6:78 CONFLICTING_FIELDS sticky goes with a balance that shares traffic alone',
      'sluice.yaml:7:59 CONFLICTING_FIELDS hash_key goes with balance hash alone',
      'sluice.yaml:8:48 FIELD_INVALID cookie must be a name of a cookie: letters, digits and marks such as - and _',
      'sluice.yaml:9:8 FIELD_REQUIRED hash_key is required with balance hash'
    ]
  )
})

t.test('retries of a backend hold for each of its servers, and a wrong reason has its place', async (t) => {
  const { file } = await read(`backends:
  web:
    servers: [http://127.0.0.1:1, http://127.0.0.1:2]
    retries: { attempts: 4, on: [connect, 502-504], methods: safe, per_second: 7, share: 0 }
`)
  const units = [...(file?.units.values() ?? [])].filter((unit) => unit.kind === 'upstream')
  const retries = { attempts: 4, on: ['connect'], statuses: [[502, 504]], methods: 'safe', perSecond: 7 }
  t.same(
    units.flatMap((unit) => (unit.form === 'address' ? [unit.retries] : [])),
    [retries, retries]
  )
  t.match(await problemsOf('backends:\n  a: { servers: [http://127.0.0.1:1], retries: { on: [never] } }\n'), [
    /^sluice\.yaml:2:\d+ FIELD_INVALID on entry 0 is none of connect/
  ])
})

t.test('secrets stand outside the file and are never repeated', async (t) => {
  const literal = 'hunter2-hunter2'
  const text = (value: string) => `vaults:\n  keys:\n    token: ${value}\n`
  const refused = await problemsOf(text(literal))
  t.match(refused, [/^sluice\.yaml:3:12 SECRET_LITERAL /])
  t.notMatch(refused.join(), literal)
  t.match(await problemsOf(text('{ env: NONE }')), [/SECRET_MISSING the environment variable NONE is not set/])
  const { file } = await read(text('{ env: TOKEN }'))
  t.same([...(file?.secrets.values() ?? [])], ['from-the-environment'])
  t.notMatch(JSON.stringify([...(file?.units ?? [])]), 'from-the-environment')
})

t.test('a secret loses the line end of its file or variable, and must go into a header field', async (t) => {
  const text = (from: string) => `vaults: { keys: { token: { ${from} } } }\n`
  const from = async (value: string) => [
    await read(text('env: TOKEN'), {}, { environment: { TOKEN: value } }),
    await read(text('file: token'), { token: value })
  ]
  const taken = { 'abc\n': 'abc', 'abc\r\n': 'abc', '\ufeffabc\r\n': 'abc', 'a\nb\n': 'a\nb', ABC: 'ABC' }
  for (const [value, kept] of Object.entries(taken)) {
    for (const { file } of await from(value)) t.same([...(file?.secrets.values() ?? [])], [kept], JSON.stringify(value))
  }
  for (const value of [' abc', 'abc ', 'abc\n\n'.replace('\n\n', '\t\n'), 'a\u0000b', 'a\u001bb']) {
    for (const { problems } of await from(value)) {
      const messages = problems.flatMap((one) => one.problems.map(({ message }) => message))
      t.match(messages, [/^value must be (a header value|Unicode text)/], JSON.stringify(value))
      t.notMatch(messages.join(), value)
    }
  }
})

t.test('routes take a star at their end for a prefix, and what no request can have is refused', async (t) => {
  const site = (routes: string, more = '') => `sites: { a.test: { ${more} routes: { ${routes} } } }\n`
  const paths = async (...given: Parameters<typeof read>) =>
    [...((await read(...given)).file?.units.values() ?? [])].flatMap((unit) =>
      unit.kind === 'route' ? [`${unit.match} ${unit.path}`] : []
    )
  const all = site('"/admin/*": http://127.0.0.1:1, "/deep/**": http://127.0.0.1:1, "/*": http://127.0.0.1:1')
  t.same(await paths(all), ['prefix /admin', 'prefix /deep', 'prefix /'])
  t.match(await problemsOf(site('"/a/*/b": http://127.0.0.1:1')), [
    /FIELD_INVALID the path "\/a\/\*\/b" may have "\*" only/
  ])
  t.match(await problemsOf(site('/a/: http://127.0.0.1:1, "/a/*": http://127.0.0.1:1')), [/ALREADY_EXISTS/])
  const encoded = '/low%2fx: http://127.0.0.1:1'
  const refused = [/FIELD_INVALID the path "\/low%2fx" is refused in every request, because path_form is strict/]
  t.match(await problemsOf(site(encoded)), refused)
  t.match(
    await problemsOf(site(encoded, 'path_form: strict,'), {}, { process: { ...NONE, lenientPaths: true } }),
    refused
  )
  const taken = ['exact /low%2Fx']
  for (const form of ['lenient', 'exact']) t.same(await paths(site(encoded, `path_form: ${form},`)), taken, form)
  t.same(await paths(`listeners: [http://127.0.0.1:8081?path_form=exact]\n${site(encoded)}`), taken)
  t.same(await paths(site(encoded), {}, { process: { ...NONE, lenientPaths: true } }), taken)
})

t.test('a key of another name is the only error where what it stands for is missing', async (t) => {
  const texts = [
    'sites: { a.test: { upstream: http://127.0.0.1:1 } }\n',
    'tcp: { "127.0.0.1:9000": { upstream: "127.0.0.1:1" } }\n',
    'backends: { a: { url: http://127.0.0.1:1 } }\n',
    'backends: { a: { servers: [{ address: http://127.0.0.1:1 }] } }\n',
    'certificate_authorities: { a: { file: a.pem } }\n',
    'certificates: [{ cert: a.pem, key: a.key }]\n'
  ]
  for (const text of texts) t.match(await problemsOf(text), [/FIELD_UNKNOWN/], text)
  for (const text of texts) t.equal((await problemsOf(text)).length, 1, text)
  t.match(await problemsOf('sites: { a.test: {} }\n'), [/FIELD_REQUIRED a site needs a backend/])
})

t.test('times are seconds or durations, and a message says so', async (t) => {
  const text = (interval: string) =>
    `backends: { a: { servers: [http://127.0.0.1:1], health: { interval: ${interval} } } }\n`
  for (const [written, seconds] of [
    ['10', 10],
    ['"10"', 10],
    ['10s', 10],
    ['1m30s', 90],
    ['500ms', 0.5],
    ['0.5', 0.5]
  ] as const) {
    const { file } = await read(text(written))
    t.match(file?.records[0]?.record.body.health, { interval: seconds }, written)
  }
  for (const wrong of ['0', '2h', 'soon', '10x', 'true']) {
    t.match(
      await problemsOf(text(wrong)),
      [/interval must be a number of seconds from 0\.1 to 3600, or a duration such as 10s/],
      wrong
    )
  }
})

t.test('a secret that changes changes the unit that refers to it', async (t) => {
  const text = 'vaults: { keys: { token: { file: secret } } }\n'
  const [one, same, other] = await Promise.all(['a\n', 'a', 'b'].map((secret) => read(text, { secret })))
  t.same([...(one?.file?.secrets.values() ?? [])], ['a'])
  t.same([...(one?.file?.units ?? [])], [...(same?.file?.units ?? [])])
  t.same(siteChanges(one!.file!.contents, other!.file!.contents), { added: [], changed: ['vault keys'], removed: [] })
})

t.test('an empty file is refused, one that says that there is nothing is none', async (t) => {
  t.match(await problemsOf(''), [/DOCUMENT_EMPTY the file says nothing/])
  t.match(await problemsOf('# nothing\n'), [/DOCUMENT_EMPTY/])
  t.same(await problemsOf('sites: {}\n'), [])
})

t.test('a file of another program that holds a policy says which part a site could take', async (t) => {
  const manifest = 'apiVersion: a/v1\nkind: NgrokTrafficPolicy\nspec:\n  policy:\n    on_http_request: []\n'
  const message =
    /:5:5 FIELD_UNKNOWN this is a Kubernetes manifest \(NgrokTrafficPolicy\), not a site file; give its part spec.policy as policy of a site/
  t.match(await problemsOf(manifest), [message])
  t.match(await problemsOf('endpoints:\n  - traffic_policy:\n      on_http_request: []\n'), [
    /endpoints\[0\].traffic_policy/
  ])
  t.match(await problemsOf('on_http_request: []\n'), [
    /FIELD_UNKNOWN this is a traffic policy, not a site file; name it as policy of a site/
  ])
})

t.test('what has a policy does not lose it by silence', async (t) => {
  const text = (policy: string) =>
    `sites: { a.test: { backend: web${policy} } }\nbackends: { web: { servers: ["http://127.0.0.1:1"] } }\n`
  const files = { 'p.yaml': DENY, 'empty.yaml': '' }
  const { file } = await read(text(', policy: p.yaml'), files)
  const policed = file?.policed ?? new Set()
  t.match(await problemsOf(text(''), files, { policed }), [/^sluice\.yaml:1:10 POLICY_MISSING .*write "policy: none"/])
  t.match(await problemsOf(text(', policy: '), files), [/POLICY_MISSING names no policy/])
  t.match(await problemsOf(text(', policy: empty.yaml'), files), [/^empty\.yaml:1:1 DOCUMENT_EMPTY/])
  t.same(await problemsOf(text(', policy: none'), files, { policed }), [])
})

t.test('certificates are read: a key that does not fit, one that has expired', async (t) => {
  const now = Date.now()
  const year = 365 * 86_400_000
  const [one, other] = await Promise.all([
    makeServerCertificate('CN=a.test', ['a.test'], { now, life: year }),
    makeServerCertificate('CN=b.test', ['b.test'], { now: now - 2 * year, life: year })
  ])
  const text = 'certificates:\n  - { certificate: a.pem, key: a.key }\n'
  const good = await read(text, { 'a.pem': one.cert, 'a.key': one.key })
  t.same(good.problems, [])
  t.match([...(good.file?.units.values() ?? [])], [{ kind: 'certificate', names: ['a.test'] }])
  t.same(good.files, ['/etc/sluice/a.pem', '/etc/sluice/a.key'])
  t.match(await problemsOf(text, { 'a.pem': one.cert, 'a.key': other.key }), [
    /^sluice\.yaml:2:32 FIELD_INVALID the key: the private key does not belong/
  ])
  t.match(await problemsOf(text, { 'a.pem': other.cert, 'a.key': other.key }), [
    /^sluice\.yaml:2:20 CERTIFICATE_EXPIRED the certificate has expired/
  ])
})

t.test('servers at Unix domain sockets, with paths, and as backups', async (t) => {
  const { file, problems } = await read(`backends:
  one: { servers: ['http://unix:/run/app.sock'] }
  two: { servers: ['unix:///run/app.sock:/path'], proxy_protocol: v2, upgrades: [TCP, spdy/3.1], max_connections: 9, queue: { timeout: 2s } }
  three: { servers: ['http://10.0.0.5:3000/base'] }
  four: { servers: ['https://10.0.0.5/'], tls: { verify: off }, lenient: true }
  five: { servers: [http://10.0.0.1:1, http://10.0.0.2:1, { url: http://10.0.0.3:1, backup: true }], balance: least_requests }
`)
  t.same(problems, [])
  const units = new Map(file?.units ?? [])
  const found = [...units.values()].filter((unit) => unit.kind === 'upstream')
  const at = { kind: 'upstream', form: 'address' }
  t.match(found.slice(0, 4), [
    { ...at, protocol: 'http', host: 'localhost', port: 0, socket: '/run/app.sock', pathPrefix: undefined },
    {
      ...at,
      socket: '/run/app.sock',
      pathPrefix: '/path',
      proxyProtocol: 2,
      upgrades: ['tcp', 'spdy/3.1'],
      maxConnections: 9,
      queue: { length: 100, timeout: 2_000 }
    },
    { ...at, host: '10.0.0.5', port: 3000, pathPrefix: '/base', proxyProtocol: undefined, lenient: undefined },
    { ...at, protocol: 'https', verify: false, pathPrefix: undefined, lenient: true }
  ])
  const failover = found.find((unit) => unit.form === 'failover')
  const [usual, backup] = (failover?.form === 'failover' ? failover.members : []).map((key) => units.get(key))
  t.match(usual, { form: 'weighted', balance: 'least_requests', members: { length: 2 } })
  t.match(backup, { form: 'address', host: '10.0.0.3' })
  t.match(
    await problemsOf(`backends:
  a: { servers: [{ url: http://10.0.0.1:1, backup: true }, { url: http://10.0.0.2:1, backup: true }] }
  b: { servers: [http://10.0.0.1:1, { url: http://10.0.0.2:1, backup: true }], balance: failover }
  c: { servers: [{ url: http://10.0.0.1:1, backup: maybe }] }
  d: { servers: ['unix:run/app.sock'] }
`),
    [
      /:2:.*one of them must be none/,
      /:3:.*does not go with balance: failover/,
      /:4:.*backup must be true or false/,
      /:5:.*FIELD_INVALID/
    ]
  )
})

t.test('the URL of a server is read and written', async (t) => {
  const urls = ['http://a_b:80', 'http://[::1]:3000/base', 'srv+https://_http._tcp.a.test', 'h2c://10.0.0.1:1/a/b']
  for (const url of [...urls, 'https://unix:/run/a.sock', 'http://unix:/run/a.sock:/base']) {
    const read = readServerUrl(url)
    if (read.kind !== 'server') throw new Error(read.message)
    const { address, path, http2, secure } = read
    t.equal(serverUrl({ address, path, http2, tls: { enabled: secure } }), url)
  }
  t.same(readServerUrl('unix:///run/a.sock:/base'), readServerUrl('http://unix:/run/a.sock:/base'))
})

t.test('literals that the strict form of paths never has are judged by the form of the site', async (t) => {
  const rules = (action: string) =>
    `on_http_request: [{ expressions: ["req.url.path == '/a//b'"], actions: [{ type: ${action} }] }]`
  const site = (action: string, form = '') =>
    `sites:\n  a.test: { ${form} policy: { ${rules(action)} }, backend: http://127.0.0.1:1 }\n`
  const severities = async (text: string, about: Partial<SiteFileInput> = {}) => {
    const { problems } = await read(text, { 'p.yaml': rules('deny') }, about)
    return problems.flatMap((one) => one.problems.map(({ severity, code }) => `${severity} ${code}`))
  }
  const error = ['error LITERAL_NEVER_EQUAL']
  t.same(await severities(site('deny')), error)
  t.same(await severities(site('log')), ['warning LITERAL_NEVER_EQUAL'])
  t.same(await severities(site('deny', 'path_form: lenient,')), [])
  t.same(await severities(site('deny', 'path_form: exact,')), [])
  t.same(await severities(`listeners: [http://127.0.0.1:8081?path_form=lenient]\n${site('deny')}`), [])
  const process = { ...NONE, lenientPaths: true }
  t.same(await severities(site('deny'), { process }), [])
  t.same(await severities(site('deny', 'path_form: strict,'), { process }), error)
  const both = 'sites:\n  a.test: { path_form: lenient, policy: p.yaml }\n  b.test: { policy: p.yaml }\n'
  t.same(
    (await severities(both)).filter((one) => one.includes('LITERAL')),
    error,
    'one document of two sites'
  )
})
