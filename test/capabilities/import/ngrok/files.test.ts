import t from 'tap'
import { readNgrok } from '../../../../src/capabilities/import/ngrok/read.js'
import { readYaml } from '../../../../src/capabilities/import/yaml-document.js'
import { damageTexts, importWith, type Shape, testShapes } from '../kit.js'

const SHAPES: readonly Shape[] = [
  {
    name: 'tunnels of version 2',
    files: `version: "2"
authtoken: secret
tunnels:
  web:
    proto: http
    addr: 3000
    hostname: Shop.test
    basic_auth: ["anna:correct-horse"]
    ip_restriction: { allow_cidrs: [10.0.0.0/8] }
    request_header: { add: ["x-plan: gold"], remove: [x-secret] }
    compression: true
  plain: { proto: http, addr: "10.0.0.1:8080", domain: plain.test, schemes: [http], inspect: false }
  db: { proto: tcp, addr: 5432, remote_addr: "1.tcp.test:20000" }
  group: { addr: 9000, labels: [app=web] }
`,
    site: {
      listeners: ['http://0.0.0.0:80', 'https://0.0.0.0:443'],
      sites: {
        'shop.test': {
          backend: 'http://localhost:3000',
          compression: true,
          policy: {
            on_http_request: [
              {
                actions: [
                  { type: 'basic-auth', config: { credentials: ['anna:correct-horse'] } },
                  { type: 'restrict-ips', config: { allow: ['10.0.0.0/8'] } },
                  { type: 'remove-headers', config: { headers: ['x-secret', 'x-plan'] } },
                  { type: 'add-headers', config: { headers: { 'x-plan': 'gold' } } }
                ]
              }
            ]
          }
        },
        'plain.test': { backend: 'http://10.0.0.1:8080' }
      },
      tcp: { '0.0.0.0:20000': 'db' },
      backends: { db: { servers: ['tcp://localhost:5432'] } }
    },
    verdicts: {
      authtoken: 'close',
      'tunnel web': 'close',
      'tunnel plain': 'exact',
      'tunnel db': 'exact',
      'tunnel group': 'not-here',
      ip_restriction: 'exact',
      inspect: 'close'
    }
  },
  {
    name: 'endpoints of version 3 with a policy',
    files: `version: 3
agent: { authtoken: secret }
endpoints:
  - name: api
    url: https://api.test
    upstream: { url: 8080 }
    traffic_policy:
      on_http_request:
        - expressions: ["req.url.path.startsWith('/admin')", "req.method == 'POST'"]
          actions: [{ type: deny, config: { status_code: 404 } }]
        - actions: [{ type: add-headers, config: { headers: { x-from: edge } } }]
      on_http_response:
        - actions: [{ type: remove-headers, config: { headers: [server] } }]
  - name: ssh
    url: tcp://1.tcp.test:22000
    upstream: { url: "tcp://localhost:22" }
  - { name: rest, upstream: { url: "https://10.0.0.1" } }
`,
    site: {
      sites: {
        'api.test': {
          backend: 'http://localhost:8080',
          policy: {
            on_http_request: [
              {
                expressions: ["(req.url.path.startsWith('/admin')) && (req.method == 'POST')"],
                actions: [{ type: 'deny', config: { status_code: 404 } }]
              },
              { actions: [{ type: 'add-headers', config: { headers: { 'x-from': 'edge' } } }] }
            ],
            on_http_response: [{ actions: [{ type: 'remove-headers', config: { headers: ['server'] } }] }]
          }
        },
        '*': 'backend-443'
      },
      tcp: { '0.0.0.0:22000': 'ssh' }
    },
    verdicts: { agent: 'close', 'endpoint api': 'close', 'endpoint ssh': 'exact', traffic_policy: 'close' }
  },
  {
    name: 'checks that are not converted close their sites',
    files: `version: "2"
tunnels:
  a: { proto: http, addr: 3000, hostname: a.test, oauth: { provider: google } }
  b: { proto: http, addr: 3000, hostname: b.test, traffic_policy: policy.yaml }
  c: { proto: http, addr: 3000, hostname: c.test, basic_auth: ["x:short"] }
  d: { proto: http, addr: "file:///srv", hostname: d.test }
  e: { proto: tcp, addr: 22, remote_addr: "1.tcp.test:2222", ip_restriction: { allow_cidrs: [10.0.0.0/8] } }
`,
    site: { tcp: undefined },
    verdicts: {
      oauth: 'not-here',
      'traffic_policy: policy': 'not-here',
      basic_auth: 'not-here',
      'tunnel d': 'not-here',
      'tunnel e': 'not-here'
    }
  }
]

testShapes(t, readNgrok, 'ngrok.yml', SHAPES)

t.test('sites with a check that is not converted answer 503, and secrets are not in the report', async (t) => {
  const { config, statements } = await importWith(readNgrok, { f: (SHAPES.at(-1) as Shape).files as string })
  t.equal(config.hosts.length, 4)
  for (const { routes } of config.hosts)
    t.match(routes[0]?.actions[0], { kind: 'respond', status: 503, when: undefined })
  t.notMatch(JSON.stringify(statements), /short/)
  await t.rejects(importWith(readNgrok, { f: 'version: 9' }), { code: 'IMPORT_SYNTAX', message: /^f:1:1: version 9/ })
})

t.test('whatever the text is, it is read or refused with a place', async (t) => {
  const seed =
    'version: 3\nendpoints:\n  - { name: a, url: "https://a.test" }\ntunnels:\n  b: { addr: 1, labels: [c=d] }\n'
  const texts: string[] = []
  const read = damageTexts(
    seed,
    ['[', ']', '{', '}', '"', ':', '- ', '#', '\n', ' ', '\u0000', 'é', '*a', '&a '],
    (text) => {
      readYaml(text, 'f')
      texts.push(text)
    }
  )
  t.ok(read > 100 && read < 5000, `${read} texts were read`)
  let sites = 0
  for (const text of texts.slice(0, 100)) {
    const imported = await importWith(readNgrok, { f: text }).catch((error: { code?: string }) => error.code)
    if (typeof imported === 'string') t.equal(imported, 'IMPORT_SYNTAX')
    else sites++
  }
  t.ok(sites > 20)
})
