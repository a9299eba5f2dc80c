import t from 'tap'
import { readHaproxy } from '../../../../src/capabilities/import/haproxy/read.js'
import { parseHaproxy } from '../../../../src/capabilities/import/haproxy/syntax.js'
import { damageTexts, importWith, type Shape, testShapes } from '../kit.js'

const SHAPES: readonly Shape[] = [
  {
    name: 'a frontend with its servers',
    files: `global
  maxconn 2000
defaults
  mode http
  timeout connect 5s
  timeout server 30000
  option forwardfor
frontend web
  bind *:8080
  default_backend app
backend app
  balance leastconn
  option httpchk GET /healthz
  server one 10.0.0.1:3000 check weight 3
  server two 10.0.0.2:3000 check backup
`,
    site: {
      listeners: ['http://0.0.0.0:8080'],
      sites: { '*': 'app' },
      backends: {
        app: {
          servers: [
            { url: 'http://10.0.0.1:3000', weight: 3 },
            { url: 'http://10.0.0.2:3000', backup: true }
          ],
          balance: 'least_requests',
          health: { path: '/healthz' },
          timeouts: { connect: 5, response: 30, idle: 30 }
        }
      }
    },
    verdicts: {
      'timeout connect': 'exact',
      balance: 'exact',
      'server one': 'exact',
      'option forwardfor': 'exact',
      maxconn: 'close'
    }
  },
  {
    name: 'paths and hosts that choose a backend',
    files: `frontend web
  mode http
  bind :80
  acl is_api path_beg /api/
  acl is_shop hdr(host) -i Shop.test www.shop.test
  use_backend api if is_api
  use_backend shop if is_shop !{ method POST } or { path_end .css }
  default_backend app
backend api
  http-request replace-path ^/api/(.*) /\\1
  server a 10.0.0.1:1
backend shop
  server a 10.0.0.2:2
backend app
  server a 10.0.0.3:3
`,
    site: {
      sites: {
        '*': {
          policy: {
            on_http_request: [
              {
                expressions: [
                  "((req.url.host == 'shop.test' || req.url.host == 'www.shop.test') && !(req.method == 'POST')) || req.url.path.endsWith('.css')"
                ].map((text) => `(${text})`)
              }
            ]
          },
          routes: {
            '/api/': {
              policy: {
                on_http_request: [{ actions: [{ type: 'url-rewrite', config: { from: '^/api/([^?]*)', to: '/$1' } }] }]
              }
            }
          }
        }
      }
    },
    verdicts: {
      'use_backend api': 'exact',
      'use_backend shop': 'exact',
      acl: 'exact',
      'http-request replace-path': 'exact'
    }
  },
  {
    name: 'fields, answers and redirects',
    files: `frontend web
  mode http
  bind 127.0.0.1:80
  bind 127.0.0.1:443 ssl crt /tls/a.pem
  redirect scheme https code 301 if !{ ssl_fc }
  http-request set-header X-Client %[src]
  http-request del-header X-Secret
  http-request return status 200 content-type text/plain string "ok" if { path /up }
  http-request deny deny_status 404 if { path_beg /.git } || { path_sub -i /wp- }
  http-request redirect location https://new.test%[pathq] code 308 if { path_beg /old }
  http-response set-header X-Frame-Options DENY
  http-response del-header Server
  monitor-uri /alive
  default_backend app
backend app
  server a 10.0.0.3:443 ssl verify none
`,
    site: {
      listeners: ['http://127.0.0.1:80', 'https://127.0.0.1:443'],
      certificates: [{ certificate: '/tls/a.pem', key: '/tls/a.pem' }],
      backends: { app: { servers: ['https://10.0.0.3:443'], tls: { verify: 'off' } } }
    },
    verdicts: {
      redirect: 'exact',
      'http-request return': 'exact',
      'http-request deny': 'close',
      'http-response': 'exact',
      'bind 127.0.0.1:443': 'close',
      monitor: 'exact'
    }
  },
  {
    name: 'a rate by a stick table',
    files: `frontend web
  mode http
  bind :80
  stick-table type ip size 100k expire 30s store http_req_rate(10s)
  http-request track-sc0 src
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt 20 }
  default_backend app
backend app
  server a 10.0.0.3:80
`,
    site: {
      sites: {
        '*': {
          policy: {
            on_http_request: [
              {
                actions: [
                  { type: 'rate-limit', config: { capacity: 120, rate: '60s', bucket_key: ['conn.client_ip'] } }
                ]
              }
            ]
          }
        }
      }
    },
    verdicts: { 'http-request deny': 'close', 'stick-table': 'close' }
  },
  {
    name: 'TCP, as an edge; with a check its port stays closed',
    files: `defaults
  mode tcp
listen db
  bind :5432
  server a 10.0.0.1:5432 check
frontend inspected
  bind :6000
  tcp-request content reject if { src 10.0.0.0/8 }
  default_backend other
backend other
  server a 10.0.0.2:6000
listen web
  mode http
  bind :80
  server a 10.0.0.3:80
`,
    site: {
      tcp: { '0.0.0.0:5432': 'db', '0.0.0.0:6000': undefined },
      backends: { db: { servers: ['tcp://10.0.0.1:5432'] } },
      sites: { '*': 'web' }
    },
    verdicts: { 'tcp-request': 'not-here', 'listen db': 'exact' }
  },
  {
    name: 'users, and hashes that close their route',
    files: `userlist staff
  user anna insecure-password correct-horse
userlist old
  user berta password $5$abc
frontend web
  mode http
  bind :80
  acl in http_auth(staff)
  http-request auth realm Staff unless in
  use_backend private if { path_beg /private/ }
  default_backend app
backend private
  http-request auth unless { http_auth(old) }
  server a 10.0.0.1:80
backend app
  cookie SRV insert
  server a 10.0.0.2:\${PORT} cookie a
`,
    site: {
      sites: {
        '*': {
          policy: {
            on_http_request: [
              { actions: [{ type: 'basic-auth', config: { realm: 'Staff', credentials: ['anna:correct-horse'] } }] }
            ]
          },
          routes: {
            '/private/': {
              policy: { on_http_request: [{ actions: [{ type: 'deny', config: { status_code: 503 } }] }] }
            }
          }
        }
      },
      backends: { app: { sticky: { cookie: 'SRV' }, servers: ['http://10.0.0.2:${PORT}'] } }
    },
    verdicts: { 'http-request auth realm': 'close', 'http-request auth unless': 'not-here', cookie: 'close' }
  },
  {
    name: 'what cannot be converted closes what it stands in',
    files: `frontend web
  mode http
  bind :80
  http-request lua.check
  http-request deny if { src -f /etc/blocked }
  use_backend %[req.hdr(x-backend)]
  default_backend app
backend app
  server a 10.0.0.1:80
`,
    verdicts: { 'http-request lua': 'not-here', 'http-request deny': 'not-here', use_backend: 'not-here' }
  }
]

testShapes(t, readHaproxy, 'haproxy.cfg', SHAPES)

t.test('a rule that is not converted answers 503 before everything else', async (t) => {
  const { config } = await importWith(readHaproxy, { f: (SHAPES.at(-1) as Shape).files as string })
  for (const { actions } of config.hosts[0]?.routes ?? []) {
    t.match(actions[0], { kind: 'respond', status: 503 })
    t.equal(actions[0]?.when, undefined)
  }
})

t.test('mistakes are named with their place', (t) => {
  const cases: [string, RegExp][] = [
    ['bind :80', /^f:1:1: "bind" stands in no section/],
    ['global\n  log "x', /^f:2:7: a text that begins with " does not end/],
    ['global\n  a \\', /^f:2:5: a backslash ends the line/]
  ]
  for (const [text, message] of cases) t.throws(() => parseHaproxy(text, 'f'), { code: 'IMPORT_SYNTAX', message }, text)
  t.same(parseHaproxy('global\n a "b c" \'d"\' e\\ f "\\"" # g\n', 'f')[0]?.lines[0]?.words, [
    'a',
    'b c',
    'd"',
    'e f',
    '"'
  ])
  t.end()
})

t.test('whatever the text is, it is read or refused with a place', async (t) => {
  const seed =
    'defaults a\n mode http # b\nfrontend x from a\n bind :80 ssl crt "a b"\n acl c path_beg -i /x\n use_backend %[str(\'d\')] if c or !{ src 10.0.0.1 }\n'
  const texts: string[] = []
  const read = damageTexts(
    seed,
    ['"', "'", '\\', '#', '\n', ' ', '{', '}', '!', 'if', '%[', '\u0000', 'é', 'listen '],
    (text) => {
      parseHaproxy(text, 'f')
      texts.push(text)
    }
  )
  t.ok(read > 100 && read < 5000, `${read} texts were read`)
  for (const text of texts.slice(0, 100)) t.ok((await importWith(readHaproxy, { f: text })).site)
})
