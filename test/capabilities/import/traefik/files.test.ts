import t from 'tap'
import { readDocument } from '../../../../src/capabilities/import/traefik/documents.js'
import { readTraefik } from '../../../../src/capabilities/import/traefik/read.js'
import { parseRule, RuleSyntaxError, ruleCel } from '../../../../src/capabilities/import/traefik/rules.js'
import { damageTexts, importWith, type Shape, testShapes } from '../kit.js'

const SHAPES: readonly Shape[] = [
  {
    name: 'routers, a service with several servers, and entry points',
    files: `entryPoints:
  web: { address: ":8080" }
http:
  routers:
    api:
      rule: Host(\`a.test\`) && PathPrefix(\`/api\`)
      middlewares: [strip]
      service: api
    app: { rule: "Host(\`a.test\`)", service: app }
  middlewares:
    strip: { stripPrefix: { prefixes: [/api] } }
  services:
    api: { loadBalancer: { servers: [{ url: "http://10.0.0.1:4000" }] } }
    app:
      loadBalancer:
        servers: [{ url: "http://10.0.0.2", weight: 2 }, { url: "http://10.0.0.3:3000" }]
        healthCheck: { path: /up }
`,
    site: {
      listeners: ['http://0.0.0.0:8080'],
      sites: {
        'a.test': {
          routes: {
            '/': 'app',
            '/api/': {
              backend: 'http://10.0.0.1:4000',
              policy: {
                on_http_request: [{ actions: [{ type: 'url-rewrite', config: { from: '^(?:/api)/?', to: '/' } }] }]
              }
            }
          }
        }
      },
      backends: {
        app: { servers: [{ url: 'http://10.0.0.2:80', weight: 2 }, 'http://10.0.0.3:3000'], health: { path: '/up' } }
      }
    },
    verdicts: {
      'http.routers.api': 'close',
      'http.services.app': 'exact',
      'http.middlewares.strip': 'close',
      'entryPoints.web': 'exact'
    }
  },
  {
    name: 'TOML, with fields, a limit and addresses',
    files: {
      'dynamic.toml': `[http.routers.a]
rule = "Host(\`a.test\`) && !ClientIP(\`10.0.0.0/8\`)"
service = "a"
middlewares = ["fields", "slow", "inside"]
[http.middlewares.fields.headers]
frameDeny = true
[http.middlewares.fields.headers.customRequestHeaders]
X-Plan = "gold"
[http.middlewares.slow.rateLimit]
average = 10
burst = 50
[http.middlewares.inside.ipAllowList]
sourceRange = ["10.0.0.0/8", "192.168.1.7"]
[http.services.a.loadBalancer]
[[http.services.a.loadBalancer.servers]]
url = "http://10.0.0.1:1"
`
    },
    site: {
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              {
                actions: [
                  { type: 'remove-headers' },
                  { type: 'add-headers', config: { headers: { 'x-plan': 'gold' } } },
                  { type: 'rate-limit', config: { name: 'slow', capacity: 650, rate: '60s' } },
                  { type: 'restrict-ips', config: { allow: ['10.0.0.0/8', '192.168.1.7'] } }
                ]
              },
              {
                expressions: ["!conn.client_ip.inCidrRange('10.0.0.0/8')"],
                actions: [{ type: 'forward-internal' }]
              },
              { actions: [{ type: 'deny', config: { status_code: 404 } }] }
            ]
          }
        },
        'backend-1.a-test.internal': 'http://10.0.0.1:1'
      }
    },
    verdicts: {
      'http.middlewares.slow': 'close',
      'http.middlewares.inside': 'exact',
      'http.middlewares.fields': 'exact'
    }
  },
  {
    name: 'labels of a compose file',
    files: `services:
  shop:
    image: shop
    expose: [3000]
    labels:
      - "traefik.enable=true"
      - "traefik.http.routers.shop.rule=Host(\`shop.test\`, \`www.shop.test\`)"
      - "traefik.http.routers.shop.entrypoints=websecure"
      - "traefik.http.routers.shop.middlewares=auth@docker"
      - "traefik.http.middlewares.auth.basicauth.users=anna:$$2y$$05$$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"
  db:
    image: postgres
  api:
    labels:
      traefik.http.routers.api.rule: Host(\`api.test\`)
      traefik.http.services.api.loadbalancer.server.port: 9000
`,
    site: {
      sites: {
        'shop.test': {
          policy: {
            on_http_request: [{ actions: [{ type: 'basic-auth', config: { credentials: [{ username: 'anna' }] } }] }]
          }
        },
        'www.shop.test': {},
        'api.test': { backend: 'http://api:9000' }
      }
    },
    verdicts: { 'http.routers.shop': 'close', 'http.middlewares.auth': 'exact' }
  },
  {
    name: 'redirects and priorities',
    files: `http:
  routers:
    old: { rule: "PathPrefix(\`/old/\`)", middlewares: [move], service: app, priority: 100 }
    plain: { rule: "Host(\`a.test\`) && (Method(\`GET\`) || Headers(\`x-a\`, \`b\`)) && Query(\`v\`, \`2\`)", middlewares: [https, add, retry, zip], service: app }
    rest: { rule: "HostRegexp(\`.+\`)", service: app }
  middlewares:
    move: { redirectRegex: { regex: "^/old/(.*)", replacement: "/new/\${1}", permanent: true } }
    https: { redirectScheme: { scheme: https, permanent: true } }
    add: { addPrefix: { prefix: /base } }
    retry: { retry: { attempts: 3 } }
    zip: { compress: {} }
  services:
    app: { loadBalancer: { servers: [{ url: "http://app:3000" }] } }
`,
    verdicts: {
      'http.routers.old': 'exact',
      'http.middlewares.move': 'close',
      'http.middlewares.retry': 'close',
      'http.middlewares.add': 'exact'
    }
  },
  {
    name: 'checks that are not converted close their routers',
    files: `http:
  routers:
    a: { rule: "Host(\`a.test\`)", middlewares: [who], service: app }
    b: { rule: "Host(\`b.test\`)", middlewares: [missing], service: app }
    c: { rule: "Host(\`c.test\`) && Weather(\`rain\`)", service: app }
    d: { rule: "Host(\`d.test\`)", service: none }
  middlewares:
    who: { forwardAuth: { address: "http://auth" } }
  services:
    app: { loadBalancer: { servers: [{ url: "http://app:3000" }] } }
`,
    verdicts: {
      'http.middlewares.who': 'not-here',
      'http.routers.b': 'not-here',
      'http.routers.c': 'not-here',
      'http.routers.d': 'not-here'
    }
  }
]

testShapes(t, readTraefik, 'traefik.yaml', SHAPES)

t.test('closed routers answer 503 at once', async (t) => {
  const { config } = await importWith(readTraefik, { f: (SHAPES.at(-1) as Shape).files as string })
  t.same(config.hosts.map(({ names }) => names[0]).sort(), ['a.test', 'b.test', 'c.test', 'd.test'])
  for (const { routes } of config.hosts)
    t.match(routes[0]?.actions[0], { kind: 'respond', status: 503, when: undefined })
})

t.test('rules', (t) => {
  const cases: [string, string][] = [
    ['Host(`a`) || Path(`/b`)', "(req.url.host == 'a' || req.url.path == '/b')"],
    ['!PathPrefix(`/a`) && Method(`get`)', "(!req.url.path.startsWith('/a') && req.method == 'GET')"],
    ['Query(`a=b`)', "(hasQueryParam('a') ? getQueryParam('a')[0] : '') == 'b'"]
  ]
  for (const [text, cel] of cases) t.equal(ruleCel(parseRule(text)), cel, text)
  for (const text of ['', 'Host(', 'Host(`a`', 'Host(a)', 'Host(`a`) Host(`b`)', '('.repeat(100), 'Host(`a`) &&'])
    t.throws(
      () => parseRule(text),
      { name: 'Error', message: /missing|closed|stands in|follows|deeper|no arguments/ },
      text
    )
  t.end()
})

t.test('whatever the text is, it is read or refused with a place', (t) => {
  const pieces = ['[', ']', '{', '}', '"', '`', '\\', '#', '\n', ' ', ':', '=', '&&', '!', '\u0000', 'é', '*a', '&a ']
  const yaml = 'http:\n  routers:\n    a: { rule: "Host(`a`)", service: b }\n  x: &a [1, 2]\n  y: *a\n'
  // Files are called f in the messages, whatever their language.
  const toml = '[http.routers.a]\nrule = "Host(`a`)"\nn = 1.5 # c\n[[x]]\ny = [1, 2]\n'
  const rule = 'Host(`a`, `b`) && (!Path(`/c`) || Query(`d`, "e"))'
  const read = damageTexts(yaml, pieces, (text) => readDocument(text, 'f'))
  t.ok(read > 100 && read < 5000, `${read} texts of YAML were read`)
  const tomls = damageTexts(toml, pieces, (text) => {
    try {
      readDocument(text, 'f.toml')
    } catch (error) {
      throw Object.assign(error as Error, { message: (error as Error).message.replace(/^f\.toml:/, 'f:') })
    }
  })
  t.ok(tomls > 100 && tomls < 5000, `${tomls} texts of TOML were read`)
  let rules = 0
  damageTexts(rule, pieces, (text) => {
    try {
      ruleCel(parseRule(text))
      rules++
    } catch (error) {
      if (!(error instanceof RuleSyntaxError)) throw error
    }
  })
  t.ok(rules > 100 && rules < 5000, `${rules} rules were read`)
  t.end()
})
