import t from 'tap'
import { readCaddy } from '../../../../src/capabilities/import/caddy/read.js'
import { importWith, type Shape, testShapes } from '../kit.js'

/** JSON as `caddy adapt` writes it. */

const HASH = '$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG'

const server = (listen: string, routes: readonly object[], more: object = {}, apps: object = {}) =>
  JSON.stringify(
    { apps: { http: { servers: { srv0: { listen: [listen], routes, ...more } } }, ...apps } },
    undefined,
    2
  )
const site = (host: string, routes: readonly object[]) => ({
  match: [{ host: [host] }],
  handle: [{ handler: 'subroute', routes }],
  terminal: true
})
const proxy = (...dials: readonly string[]) => ({
  handler: 'reverse_proxy',
  upstreams: dials.map((dial) => ({ dial }))
})
const block = (group: string, match: object | undefined, ...routes: readonly object[]) => ({
  group,
  ...(match === undefined ? {} : { match: [match] }),
  handle: [{ handler: 'subroute', routes }]
})

const SHAPES: readonly Shape[] = [
  {
    name: 'a name with TLS that is redirected, and compression',
    files: server(':443', [
      site('shop.test', [{ handle: [{ handler: 'encode', encodings: { gzip: {} } }, proxy('localhost:3000')] }])
    ]),
    site: {
      listeners: ['http://0.0.0.0:80', 'https://0.0.0.0:443'],
      sites: { 'shop.test': { compression: true, backend: 'http://localhost:3000' } }
    },
    verdicts: { 'shop.test': 'close', encode: 'close', reverse_proxy: 'exact' }
  },
  {
    name: 'groups of blocks, a prefix that is stripped, files with a fallback',
    files: server(':8080', [
      {
        handle: [{ handler: 'vars', root: '/srv/app' }]
      },
      block(
        'group1',
        { path: ['/api/*'] },
        { handle: [{ handler: 'rewrite', strip_path_prefix: '/api' }] },
        { handle: [proxy('10.0.0.1:4000', '10.0.0.2:4000')] }
      ),
      block(
        'group1',
        undefined,
        {
          match: [{ file: { try_files: ['{http.request.uri.path}', '/index.html'] } }],
          handle: [{ handler: 'rewrite', uri: '{http.matchers.file.relative}' }]
        },
        { handle: [{ handler: 'file_server', hide: ['./Caddyfile'] }] }
      )
    ]),
    site: {
      listeners: ['http://0.0.0.0:8080'],
      sites: {
        '*': {
          routes: {
            '/api/': {
              backend: 'backend-4000',
              policy: {
                on_http_request: [{ actions: [{ type: 'url-rewrite', config: { from: '^/api/?', to: '/' } }] }]
              }
            },
            '/': { files: '/srv/app', fallback: '/index.html' }
          }
        }
      }
    },
    verdicts: { 'handle_path /api/*': 'close', try_files: 'exact', file_server: 'exact' }
  },
  {
    name: 'matchers of which one must match, redirects, fields, answers and passwords',
    files: server(
      ':81',
      [
        site('a.test', [
          {
            match: [{ path: ['/old/*'] }, { method: ['POST'], header: { 'X-Old': ['a', 'b'] } }],
            handle: [
              {
                handler: 'static_response',
                status_code: 301,
                headers: { Location: ['https://new.test{http.request.uri}'] }
              }
            ]
          },
          {
            match: [{ path: ['/admin/*'] }],
            handle: [
              {
                handler: 'authentication',
                providers: {
                  http_basic: {
                    accounts: [{ username: 'anna', password: Buffer.from(HASH).toString('base64') }],
                    hash: { algorithm: 'bcrypt' }
                  }
                }
              }
            ]
          },
          {
            handle: [
              {
                handler: 'headers',
                request: { set: { 'X-Client': ['{http.request.remote.host}'] }, delete: ['X-Bad'] },
                response: { set: { 'X-Zone': ['{env.ZONE}'] }, delete: ['Server'], deferred: true }
              }
            ]
          },
          { handle: [{ handler: 'static_response', status_code: 403, body: '{http.request.host} may not' }] }
        ])
      ],
      { automatic_https: { skip: ['a.test'] } }
    ),
    environment: { ZONE: 'blue' },
    site: {
      listeners: ['http://0.0.0.0:81'],
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              {
                expressions: [
                  "!(!req.url.path.startsWith('/old/') && !(req.method == 'POST' && !(!(hasReqHeader('x-old') && getReqHeader('x-old').exists(v, v == 'a')) && !(hasReqHeader('x-old') && getReqHeader('x-old').exists(v, v == 'b')))))"
                ],
                actions: [{ type: 'redirect', config: { to: 'https://new.test${req.url.uri}', status_code: 301 } }]
              }
            ]
          }
        }
      }
    },
    verdicts: { redir: 'exact', basic_auth: 'exact', respond: 'exact', request_header: 'exact' }
  },
  {
    name: 'certificates of a connection policy, and a proxy with all that belongs to it',
    files: server(
      ':443',
      [
        site('c.test', [
          {
            handle: [
              {
                ...proxy('10.0.0.1:8443'),
                health_checks: { active: { uri: '/up', interval: 5_000_000_000 } },
                load_balancing: { selection_policy: { policy: 'least_conn' } },
                headers: { request: { set: { Host: ['{http.request.host}'] } } },
                transport: { protocol: 'http', dial_timeout: 2_000_000_000, tls: { insecure_skip_verify: true } }
              }
            ]
          }
        ])
      ],
      { tls_connection_policies: [{ match: { sni: ['c.test'] }, certificate_selection: { any_tag: ['cert0'] } }, {}] },
      { tls: { certificates: { load_files: [{ certificate: '/c.pem', key: '/c.key', tags: ['cert0'] }] } } }
    ),
    site: {
      certificates: [{ certificate: '/c.pem', key: '/c.key' }],
      backends: {
        'backend-8443': {
          servers: ['https://10.0.0.1:8443'],
          balance: 'least_requests',
          health: { path: '/up' },
          tls: { verify: 'off' },
          timeouts: { connect: 2 }
        }
      }
    },
    verdicts: { 'c.test': 'exact', lb_policy: 'exact', health_uri: 'exact', health_interval: 'close' }
  },
  {
    name: 'what has no counterpart closes its route',
    files: server(':8080', [
      { match: [{ expression: '{http.vars.y} == "z"' }], handle: [{ handler: 'static_response', status_code: 403 }] },
      { handle: [{ ...proxy('app:80'), transport: { protocol: 'fastcgi' } }] }
    ]),
    site: {
      sites: {
        '*': { policy: { on_http_request: [{ actions: [{ type: 'deny', config: { status_code: 503 } }] }] } }
      }
    },
    verdicts: { respond: 'not-here' }
  }
]

testShapes(t, readCaddy, 'caddy.json', SHAPES)

t.test('routes of all hosts come before those of a host, and variables stay', async (t) => {
  const text = server(':80', [
    { handle: [{ handler: 'headers', response: { set: { 'X-All': ['1'] } } }] },
    site('a.test', [{ handle: [proxy('{env.APP}:3000')] }]),
    { handle: [{ handler: 'static_response', status_code: 404 }] }
  ])
  const { config, site: written } = await importWith(readCaddy, { 'caddy.json': text })
  t.same(
    config.hosts.map(({ names }) => names),
    [['*'], ['a.test']]
  )
  t.match(written, 'http://${APP}:3000')
  const [all, one] = config.hosts
  t.match(one?.routes[0]?.actions, [{ kind: 'response-header', name: 'x-all' }])
  t.match(all?.routes[0]?.actions.at(-1), { kind: 'respond', status: 404 })
})

t.test('statements have the lines of the JSON, and each is judged once', async (t) => {
  const text = server(':8080', [{ handle: [proxy('app:3000')] }])
  const { statements } = await importWith(readCaddy, { 'caddy.json': text })
  const line = text.split('\n').findIndex((one) => one.includes('"reverse_proxy"'))
  t.match(
    statements.find(({ text: words }) => words.startsWith('reverse_proxy')),
    { at: { file: 'caddy.json', line } }
  )
  const places = statements.map(({ at }) => `${at.line}:${at.column}`)
  t.equal(new Set(places).size, places.length)
})
