import t from 'tap'
import { readCaddy } from '../../../../src/capabilities/import/caddy/read.js'
import { parseCaddyfile } from '../../../../src/capabilities/import/caddy/syntax.js'
import { damageTexts, importWith, type Shape, testShapes } from '../kit.js'

const HASH = '$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG'

const SHAPES: readonly Shape[] = [
  {
    name: 'a site without braces, for a name and TLS',
    files: 'shop.test\n\nencode zstd gzip\nreverse_proxy localhost:3000\n',
    site: {
      listeners: ['http://0.0.0.0:80', 'https://0.0.0.0:443'],
      sites: { 'shop.test': { compression: true, backend: 'http://localhost:3000' } }
    },
    verdicts: { 'shop.test': 'close', encode: 'close', reverse_proxy: 'exact' }
  },
  {
    name: 'paths that are cut off, in the order of their length',
    files: `http://a.test {
  handle { respond "nothing" 404 }
  handle_path /api/* {
    reverse_proxy 10.0.0.1:4000
  }
  handle /api/v2/* {
    reverse_proxy 10.0.0.2:4000
  }
}`,
    site: {
      sites: {
        'a.test': {
          routes: {
            '/api/v2/': 'http://10.0.0.2:4000',
            '/api/v2': { backend: 'backend-4000-2' },
            '/api/': {
              backend: 'backend-4000-2',
              policy: {
                on_http_request: [{ actions: [{ type: 'url-rewrite', config: { from: '^/api/?', to: '/' } }] }]
              }
            }
          }
        }
      }
    },
    verdicts: { handle_path: 'close', respond: 'exact' }
  },
  {
    name: 'named matchers, fields and answers',
    files: `:8080 {
  @old { method GET HEAD
    path /old/* /older
    not header X-Keep yes }
  @inside remote_ip private_ranges
  @re path_regexp post ^/blog/(\\d+)$
  header { X-Frame-Options DENY
    -Server
  }
  redir @re /posts/{re.post.1} 301
  redir @old https://new.test{uri} permanent
  handle @inside { reverse_proxy unix//run/app.sock { header_up X-Real-IP {remote_host} } }
  respond "{client_ip} may not" 403
}`,
    site: {
      listeners: ['http://0.0.0.0:8080'],
      sites: {
        '*': {
          policy: {
            on_http_request: [
              { actions: [{ type: 'redirect', config: { to: '/posts/$1', status_code: 301 } }] },
              {
                expressions: [
                  "req.method in ['GET', 'HEAD']",
                  "(req.url.path.startsWith('/old/') || req.url.path == '/older')",
                  "!(hasReqHeader('x-keep') && getReqHeader('x-keep').exists(v, v == 'yes'))"
                ]
              },
              { actions: [{ type: 'forward-internal' }] },
              {
                actions: [{ type: 'custom-response', config: { status_code: 403, body: '${conn.client_ip} may not' } }]
              }
            ],
            on_http_response: [{ actions: [{ type: 'remove-headers' }, { type: 'add-headers' }] }]
          }
        }
      }
    },
    verdicts: { 'redir @re': 'exact', '@old': 'exact', header_up: 'exact' }
  },
  {
    name: 'passwords, and a check by another server that closes its route',
    files: `http://a.test {
  basic_auth /admin/* { anna ${HASH} }
  handle /members/* {
    forward_auth auth:9000 { uri /check }
    reverse_proxy app:3000
  }
  handle { reverse_proxy app:3000 }
}`,
    site: {
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              {
                expressions: ["req.url.path.matches('(?i)^/members/.*$')", "req.url.path.matches('(?i)^/admin/.*$')"],
                actions: [{ type: 'basic-auth', config: { credentials: [{ username: 'anna', password_hash: HASH }] } }]
              },
              {
                expressions: ["req.url.path.matches('(?i)^/members/.*$')"],
                actions: [{ type: 'deny', config: { status_code: 503 } }]
              },
              { expressions: ["req.url.path.matches('(?i)^/admin/.*$')"], actions: [{ type: 'basic-auth' }] }
            ]
          }
        }
      }
    },
    verdicts: { basic_auth: 'exact', forward_auth: 'not-here' }
  },
  {
    name: 'a page with a fallback, and files that are hidden',
    files: `http://a.test {
  root * /srv/app
  try_files {path} /index.html
  file_server { hide .git }
}`,
    site: {
      sites: {
        'a.test': { policy: { on_http_request: [{ actions: [{ type: 'deny', config: { status_code: 404 } }] }] } }
      }
    },
    verdicts: { file_server: 'exact', try_files: 'exact', root: 'exact' }
  },
  {
    name: 'several servers with a health check, TLS and time-outs',
    files: `http://a.test {
  reverse_proxy https://10.0.0.1 https://10.0.0.2:8443 {
    lb_policy least_conn
    health_uri /healthz
    transport http { tls_insecure_skip_verify
      dial_timeout 2s }
  }
}`,
    site: {
      backends: {
        'backend-443': {
          servers: ['https://10.0.0.1:443', 'https://10.0.0.2:8443'],
          balance: 'least_requests',
          health: { path: '/healthz' },
          tls: { verify: 'off' },
          timeouts: { connect: 2 }
        }
      }
    },
    verdicts: { lb_policy: 'exact', health_uri: 'exact' }
  },
  {
    name: 'variables of the environment stay variables, or are filled in',
    files: '{$SITE:a.test} {\n reverse_proxy {$APP}:{$PORT:3000}\n header X-Zone {$ZONE}\n}',
    environment: { ZONE: 'blue' },
    site: {
      sites: { '${SITE:-a.test}': { backend: 'http://${APP}:${PORT:-3000}' } }
    }
  },
  {
    name: 'snippets, imported files and global options',
    files: {
      Caddyfile: '{\n http_port 8000\n auto_https off\n}\n(log) { log\n header X-Who {args[0]} }\nimport sites/*\n',
      'sites/a': 'a.test {\n import log anna\n import ../common\n}',
      'sites/b': 'b.test { respond 204 }',
      common: 'reverse_proxy app:3000\n'
    },
    site: { listeners: ['http://0.0.0.0:8000'], sites: { 'a.test': { backend: 'http://app:3000' }, 'b.test': {} } },
    verdicts: { http_port: 'exact', log: 'close', 'respond 204': 'exact' }
  },
  {
    name: 'a matcher in the language of Caddy closes what it protects, and PHP shows no source',
    files: `http://a.test { @x expression {http.vars.y} == "z"
  respond @x 403
  reverse_proxy app:3000
}
http://php.test { root * /srv/php
 php_fastcgi unix//run/php.sock
 file_server }
http://c.test:81, https://c.test {
  tls /c.pem /c.key { client_auth { mode request } }
  reverse_proxy app:3000
}`,
    verdicts: { 'respond @x': 'not-here', php_fastcgi: 'not-here', tls: 'not-here' }
  }
]

testShapes(t, readCaddy, 'Caddyfile', SHAPES)

t.test('what is not converted answers 503 and has no backend', async (t) => {
  const { site, config } = await importWith(readCaddy, { Caddyfile: (SHAPES.at(-1) as Shape).files as string })
  for (const name of ['a.test', 'php.test']) {
    const host = config.hosts.find(({ names }) => names.includes(name))
    t.ok(
      host?.routes.every(({ target }) => target === undefined),
      site
    )
    t.match(host?.routes[0]?.actions.at(-1), { kind: 'respond', status: 503 })
  }
  t.match(config.hosts.find(({ certificate }) => certificate !== undefined)?.actions, [
    { kind: 'respond', status: 503 }
  ])
})

t.test('a first address that is an empty variable is no site of Caddy', async (t) => {
  const files = { Caddyfile: '{$SITE} {\n respond 200\n}' }
  const found = (await importWith(readCaddy, files)).statements[0]
  t.match(found?.verdict, { kind: 'close', difference: /where SITE is empty, Caddy reads the block as global options/ })
  t.notMatch((await importWith(readCaddy, files, { SITE: 'a.test' })).statements[0]?.verdict, {
    difference: /global options/
  })
})

t.test('mistakes are named with their place', (t) => {
  const cases: [string, RegExp][] = [
    ['a.test {\n respond', /^f:1:1: a block has no closing brace/],
    ['a.test {\n}\n}', /^f:3:1: "}" closes no block/],
    ['a.test {\n respond "x\n}', /^f:2:10: a text that begins with " does not end/],
    [`a {\n${'b {\n'.repeat(100)}`, /nested deeper than 64/]
  ]
  for (const [text, message] of cases)
    t.throws(() => parseCaddyfile(text, 'f'), { code: 'IMPORT_SYNTAX', message }, text)
  t.same(parseCaddyfile('a {\n respond <<X\n  one\n  two\n  X 200\n}', 'f')[0]?.directives[0]?.args, [
    'one\ntwo',
    '200'
  ])
  t.end()
})

t.test('whatever the text is, it is read or refused with a place', (t) => {
  const seed =
    'a.test, b.test:80 {\n @m path /x* # d\n handle_path /x/* { respond "a \\" b" `c` }\n header <<E\n x\n E\n}\n(s) {\n}\n'
  const read = damageTexts(
    seed,
    ['{', '}', '"', '`', '\\', '<<E', '#', '\n', ' ', ',', 'a', '\u0000', '{$', 'é'],
    (text) => parseCaddyfile(text, 'f')
  )
  t.ok(read > 100 && read < 5000, `${read} texts were read`)
  t.end()
})
