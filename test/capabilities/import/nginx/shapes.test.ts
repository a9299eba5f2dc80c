import t from 'tap'
import { parse } from 'yaml'
import { importNginx, otherErrors } from '../kit.js'

interface Shape {
  readonly name: string
  readonly source: string
  /** Parts of the site file. */
  readonly site?: object
  readonly verdicts?: Readonly<Record<string, 'exact' | 'close' | 'not-here'>>
}

const HOST = 'proxy_set_header Host $host;'

const SHAPES: readonly Shape[] = [
  {
    name: 'a reverse proxy for one host',
    source: `server { listen 8080; server_name app.test; location / { proxy_pass http://127.0.0.1:3000; ${HOST} } }`,
    site: {
      listeners: ['http://0.0.0.0:8080'],
      sites: { 'app.test': { hosts: ['*'], backend: 'http://127.0.0.1:3000' } }
    },
    verdicts: { proxy_pass: 'exact', location: 'exact' }
  },
  {
    name: 'an upstream with weights and a backup',
    source: `upstream web { least_conn; server 10.0.0.1:3000 weight=3; server 10.0.0.2:3000; server 10.0.0.3:3000 backup; server 10.0.0.4 down; }
server { server_name a.test; location / { proxy_pass http://web; } }`,
    site: {
      backends: {
        web: {
          servers: [
            { url: 'http://10.0.0.1:3000', weight: 3 },
            'http://10.0.0.2:3000',
            { url: 'http://10.0.0.3:3000', backup: true }
          ],
          balance: 'least_requests'
        }
      }
    },
    verdicts: { proxy_pass: 'close', least_conn: 'exact' }
  },
  {
    name: 'an API below a path that is cut off, and the redirect to its slash',
    source: `server { server_name a.test; location /api/ { proxy_pass http://127.0.0.1:4000/; ${HOST} } location / { proxy_pass http://127.0.0.1:3000; ${HOST} } }`,
    site: {
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              { expressions: ["req.url.path == '/api'"], actions: [{ type: 'redirect', config: { status_code: 301 } }] }
            ]
          },
          routes: {
            '/': 'http://127.0.0.1:3000',
            '/api/': {
              backend: 'http://127.0.0.1:4000',
              policy: { on_http_request: [{ actions: [{ type: 'url-rewrite', config: { from: '^/api/', to: '/' } }] }] }
            }
          }
        }
      }
    },
    verdicts: { 'location /api/': 'exact' }
  },
  {
    name: 'HTTP to HTTPS in two blocks',
    source: `server { listen 80; listen [::]:80; server_name a.test; return 301 https://$host$request_uri; }
server { listen 443 ssl; server_name a.test; ssl_certificate /tls/a.pem; ssl_certificate_key /tls/a.key; location / { proxy_pass http://127.0.0.1:3000; ${HOST} } }`,
    site: {
      listeners: ['http://[::]:80', 'https://0.0.0.0:443'],
      certificates: [{ certificate: '/tls/a.pem', key: '/tls/a.key' }],
      sites: { 'a.test': { hosts: ['*'], backend: 'http://127.0.0.1:3000' } }
    },
    verdicts: { return: 'close', ssl_certificate: 'exact' }
  },
  {
    name: 'the redirect that certbot writes',
    source: `server { server_name a.test; listen 443 ssl; ssl_certificate /tls/a.pem; ssl_certificate_key /tls/a.key; location / { proxy_pass http://127.0.0.1:3000; } }
server { if ($host = a.test) { return 301 https://$host$request_uri; } listen 80; server_name a.test; return 404; }`,
    site: { sites: { 'a.test': { backend: 'http://127.0.0.1:3000' } } },
    verdicts: { 'if (': 'exact', 'return 301': 'close' }
  },
  {
    name: 'WebSockets by a map',
    source: `map $http_upgrade $connection_upgrade { default upgrade; '' close; }
server { server_name a.test; location / { proxy_pass http://127.0.0.1:3000; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; ${HOST} } }`,
    site: { sites: { 'a.test': { backend: 'http://127.0.0.1:3000' } } },
    verdicts: { map: 'exact', 'proxy_set_header Upgrade': 'exact', 'proxy_set_header Connection': 'exact' }
  },
  {
    name: 'answers without an upstream',
    source: `server { server_name a.test; location = /health { return 200 "ok\\n"; } location /old { return 301 /new; } location /gone/ { return 410; } location /wp- { return 444; } }`,
    site: {
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              {
                expressions: ["req.url.path == '/health'"],
                actions: [{ type: 'custom-response', config: { status_code: 200, body: 'ok\n' } }]
              },
              {
                expressions: ["req.url.path.startsWith('/gone/')"],
                actions: [{ type: 'deny', config: { status_code: 410 } }]
              },
              {
                expressions: ["req.url.path.startsWith('/old')"],
                actions: [{ type: 'redirect', config: { to: '/new', status_code: 301 } }]
              },
              { expressions: ["req.url.path.startsWith('/wp-')"], actions: [{ type: 'close-connection' }] }
            ]
          }
        }
      }
    },
    verdicts: { 'return 200': 'exact', 'return 444': 'exact' }
  },
  {
    name: 'a limit for each address',
    source: `limit_req_zone $binary_remote_addr zone=login:10m rate=10r/m;
server { server_name a.test; location / { limit_req zone=login burst=5 nodelay; proxy_pass http://127.0.0.1:3000; } }`,
    site: {
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              {
                actions: [
                  {
                    type: 'rate-limit',
                    config: { name: 'login', capacity: 15, rate: '60s', bucket_key: ['conn.client_ip'] }
                  }
                ]
              }
            ]
          }
        }
      }
    },
    verdicts: { 'limit_req zone': 'close', limit_req_zone: 'exact' }
  },
  {
    name: 'a door with addresses',
    source: `server { server_name a.test; location /admin/ { allow 10.0.0.0/8; allow 192.168.1.7; deny all; proxy_pass http://127.0.0.1:3000; } location / { deny 10.6.6.6; allow 10.6.6.0/24; deny 10.6.0.0/16; proxy_pass http://127.0.0.1:3000; } }`,
    site: {
      sites: {
        'a.test': {
          routes: {
            '/admin/': {
              policy: {
                on_http_request: [
                  { actions: [{ type: 'restrict-ips', config: { allow: ['10.0.0.0/8', '192.168.1.7'] } }] }
                ]
              }
            },
            '/': {
              policy: {
                on_http_request: [
                  {
                    expressions: [
                      "conn.client_ip.inCidrRange('10.6.6.6/32') ? true : conn.client_ip.inCidrRange('10.6.6.0/24') ? false : conn.client_ip.inCidrRange('10.6.0.0/16') ? true : false"
                    ],
                    actions: [{ type: 'deny', config: { status_code: 403 } }]
                  }
                ]
              }
            }
          }
        }
      }
    },
    verdicts: { allow: 'exact', deny: 'exact' }
  },
  {
    name: 'header fields, which an inner block replaces as a whole',
    source: `server { server_name a.test; add_header X-A 1; add_header X-B 2 always;
 location / { proxy_pass http://127.0.0.1:3000; proxy_hide_header X-Powered-By; } location /own/ { add_header X-C 3; proxy_pass http://127.0.0.1:3001; } }`,
    site: {
      sites: {
        'a.test': {
          routes: {
            '/own/': {
              policy: {
                on_http_response: [
                  {
                    expressions: ['res.status_code in [200, 201, 204, 206, 301, 302, 303, 304, 307, 308]'],
                    actions: [{ type: 'add-headers', config: { headers: { 'x-c': '3', 'x-a': undefined } } }]
                  }
                ]
              }
            }
          }
        }
      }
    },
    verdicts: { 'add_header X-A': 'exact', proxy_hide_header: 'exact' }
  },
  {
    name: 'a variable of a map in a field',
    source: `map $http_user_agent $kind { default person; ~*bot robot; "curl" tool; }
server { server_name a.test; location / { proxy_pass http://127.0.0.1:3000; proxy_set_header X-Kind $kind; } }`,
    site: {
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              {
                actions: [
                  {
                    type: 'set-vars',
                    config: {
                      vars: [
                        {
                          kind: "${(hasReqHeader('user-agent') ? getReqHeader('user-agent')[0] : '').lowerAscii() == 'curl' ? 'tool' : (hasReqHeader('user-agent') ? getReqHeader('user-agent')[0] : '').matches('(?i)bot') ? 'robot' : 'person'}"
                        }
                      ]
                    }
                  }
                ]
              },
              {
                actions: [
                  { type: 'remove-headers', config: { headers: ['x-kind'] } },
                  { type: 'add-headers', config: { headers: { 'x-kind': '${vars.kind}' } } }
                ]
              }
            ]
          }
        }
      }
    },
    verdicts: { map: 'exact' }
  },
  {
    name: 'an expression that comes before prefixes, but not before ^~ and =',
    source: `server { server_name a.test;
 location / { proxy_pass http://127.0.0.1:1; } location ~* \\.(gif|png)$ { proxy_pass http://127.0.0.1:2; } location ^~ /raw/ { proxy_pass http://127.0.0.1:3; } location = /a.png { proxy_pass http://127.0.0.1:4; } }`,
    site: {
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              { name: 'redirect to the path with a slash' },
              {
                expressions: [
                  "req.url.path.matches('(?i)\\\\.(gif|png)$')",
                  "!(req.url.path == '/a.png')",
                  "!req.url.path.startsWith('/raw/')"
                ],
                actions: [{ type: 'forward-internal', config: { url: 'https://backend-2.a-test.internal' } }]
              }
            ]
          },
          routes: { '/a.png': 'http://127.0.0.1:4', '/raw/': 'http://127.0.0.1:3', '/': 'http://127.0.0.1:1' }
        },
        'backend-2.a-test.internal': 'http://127.0.0.1:2'
      }
    },
    verdicts: { 'location ~*': 'exact', 'location ^~': 'exact' }
  },
  {
    name: 'a page with a fallback',
    source: `server { server_name a.test; root /srv/app; index index.html; location / { try_files $uri $uri/ /index.html; } location /api { proxy_pass http://127.0.0.1:4000; } }`,
    site: {
      sites: {
        'a.test': {
          routes: {
            '/': { files: '/srv/app', index: ['index.html'], fallback: '/index.html' },
            '/api/': 'http://127.0.0.1:4000'
          }
        }
      }
    },
    verdicts: { try_files: 'exact', 'location /api': 'close' }
  },
  {
    name: 'files below another path, with a list and a time to keep them',
    source: `server { server_name a.test; location /down/ { alias /srv/files/; autoindex on; expires 7d; } }`,
    site: {
      sites: {
        'a.test': {
          routes: {
            '/down/': { files: '/srv/files/', listing: true }
          }
        }
      }
    },
    verdicts: { alias: 'exact', autoindex: 'close', expires: 'close' }
  },
  {
    name: 'PHP, which must not become files that show its source',
    source: `server { server_name a.test; root /srv/php; index index.php; location / { try_files $uri $uri/ /index.php?$args; } location ~ \\.php$ { fastcgi_pass unix:/run/php.sock; fastcgi_index index.php; } }`,
    site: {
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              {
                expressions: ["req.url.path.matches('\\\\.php$')"],
                actions: [{ type: 'deny', config: { status_code: 503 } }]
              }
            ]
          }
        }
      }
    },
    verdicts: { fastcgi_pass: 'not-here', try_files: 'not-here' }
  },
  {
    name: 'a check by a subrequest, which closes the route',
    source: `server { server_name a.test; location /private/ { auth_request /auth; proxy_pass http://127.0.0.1:3000; } location = /auth { internal; proxy_pass http://127.0.0.1:9000; } }`,
    site: {
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              { expressions: ["req.url.path == '/auth'"], actions: [{ type: 'deny', config: { status_code: 404 } }] }
            ]
          }
        }
      }
    },
    verdicts: { auth_request: 'not-here', internal: 'exact' }
  },
  {
    name: 'a proxy whose upstream is a variable, as in files that containers share',
    source: `server { listen 80; server_name sonar.*; client_max_body_size 0;
 location / { set $upstream_app sonar; set $upstream_port 8989; set $upstream_proto http; proxy_pass $upstream_proto://$upstream_app:$upstream_port; }
 location ~ (/sonar)?/api { set $upstream_app sonar; proxy_pass http://$upstream_app:8989; } }`,
    site: {
      sites: { '*': { backend: 'sonar' }, 'sonar.any.internal': 'sonar' },
      backends: { sonar: { servers: ['http://sonar:8989'] } }
    },
    verdicts: { server_name: 'not-here', set: 'exact', proxy_pass: 'close' }
  },
  {
    name: 'old paths and conditions',
    source: `server { server_name a.test www.a.test; if ($host != 'a.test') { return 301 https://a.test$request_uri; } if ($request_method !~ ^(GET|HEAD|POST)$) { return 405; }
 rewrite ^/blog/(\\d+)$ /posts/$1? permanent; rewrite ^/v1/(.*)$ /api/$1 last; location / { proxy_pass http://127.0.0.1:3000; } location /api/ { proxy_pass http://127.0.0.1:4000; } }`,
    site: {
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              {
                expressions: ["req.url.host != 'a.test'"],
                actions: [{ type: 'redirect', config: { to: 'https://a.test${req.url.uri}' } }]
              },
              {
                expressions: ["!req.method.matches('^(GET|HEAD|POST)$')"],
                actions: [{ type: 'deny', config: { status_code: 405 } }]
              },
              {
                actions: [
                  { type: 'redirect', config: { from: '^/blog/(\\d+)(?:\\?.*)?$', to: '/posts/$1', status_code: 301 } }
                ]
              },
              { expressions: ["req.url.path.matches('^/v1/(.*)$')"], actions: [{ type: 'forward-internal' }] }
            ]
          }
        }
      }
    },
    verdicts: { 'if (': 'exact', 'rewrite ^/v1': 'exact', 'rewrite ^/blog': 'exact' }
  },
  {
    name: 'several servers at several ports, with names under a star',
    source: `server { listen 80 default_server; server_name _; return 404; }
server { listen 80; server_name .shop.test; location / { proxy_pass http://127.0.0.1:3000; } }
server { listen 8081; server_name admin.test; location / { proxy_pass http://127.0.0.1:3001; } }`,
    site: {
      listeners: ['http://0.0.0.0:80', 'http://0.0.0.0:8081'],
      sites: {
        '*:80': { policy: { on_http_request: [{ actions: [{ type: 'deny', config: { status_code: 404 } }] }] } },
        'shop.test:80': { hosts: ['*.shop.test:80'], backend: 'http://127.0.0.1:3000' },
        'admin.test:8081': { hosts: ['*:8081'], backend: 'http://127.0.0.1:3001' }
      }
    }
  },
  {
    name: 'hidden files but those of certificates, by a look-ahead',
    source: `server { server_name a.test; location ~ /\\.(?!well-known) { deny all; } location / { proxy_pass http://127.0.0.1:3000; } }`,
    site: {
      sites: {
        'a.test': {
          policy: {
            on_http_request: [
              {
                expressions: ["req.url.path.matches('/\\\\.')", "!req.url.path.matches('/\\\\.(?:well-known)')"],
                actions: [{ type: 'deny', config: { status_code: 403 } }]
              }
            ]
          },
          backend: 'http://127.0.0.1:3000'
        }
      }
    },
    verdicts: { 'location ~': 'close', deny: 'exact' }
  },
  {
    name: 'a check by an expression that RE2 cannot say, which closes the site',
    source: `server { server_name a.test; location ~ ^/(?<=x)secret { deny all; } location / { proxy_pass http://127.0.0.1:3000; } }`,
    site: {
      sites: {
        'a.test': { policy: { on_http_request: [{ actions: [{ type: 'deny', config: { status_code: 503 } }] }] } }
      }
    },
    verdicts: { 'location ~': 'not-here' }
  },
  {
    name: 'time-outs and TLS of an upstream',
    source: `server { server_name a.test; location / { proxy_pass https://api.internal.test; proxy_connect_timeout 2s; proxy_read_timeout 5m; proxy_ssl_verify on; proxy_ssl_trusted_certificate /tls/ca.pem; proxy_ssl_name api.test; } location /b/ { proxy_pass https://10.0.0.9:8443; } }`,
    site: {
      backends: {
        api: {
          servers: ['https://api.internal.test:443'],
          tls: { ca: '/tls/ca.pem', server_name: 'api.test' },
          timeouts: { connect: 2, response: 300, idle: 300 }
        },
        'backend-8443': { servers: ['https://10.0.0.9:8443'], tls: { verify: 'off' } }
      }
    },
    verdicts: { proxy_read_timeout: 'exact', proxy_ssl_verify: 'exact' }
  }
]

for (const { name, source, site, verdicts = {} } of SHAPES) {
  t.test(name, async (t) => {
    const imported = await importNginx(source)
    if (site !== undefined) t.match(parse(imported.site), site)
    for (const [start, kind] of Object.entries(verdicts)) t.equal(imported.verdict(start), kind, start)
    t.same(await otherErrors(t, imported.site), [], imported.site)
  })
}

t.test('each statement that is not exact is a comment at its place', async (t) => {
  const { site } = await importNginx(
    `server { server_name a.test;\n location /x/ { proxy_pass http://127.0.0.1:1; stub_status; }\n location / {\n auth_request /a;\n proxy_pass http://127.0.0.1:3; } }`
  )
  const lines = site.split('\n')
  const of = (text: string) => lines.findIndex((line) => line.includes(text))
  t.match(lines[of('auth_request')], /# nginx\.conf:4 not here: auth_request \/a; another check decides who may pass/)
  t.ok(of('auth_request') < of('  /:') || of('auth_request') < lines.length, 'before its route')
  t.match(
    lines[of('stub_status')],
    /# nginx\.conf:2 not here: stub_status; Sluice has no such page; read GET \/metrics/
  )
})

t.test('files that are included stand in their place, and variables of the environment are filled in', async (t) => {
  const { config, site } = await importNginx(
    {
      'main.conf': 'http { include conf.d/*.conf; include mime.types; }',
      'conf.d/b.conf':
        'server { server_name b.test; include snippets/proxy.conf; location / { proxy_pass http://${APP}:3000; } }',
      'conf.d/a.conf': 'server { server_name a.${ZONE}; location / { proxy_pass http://${MISSING}:3000; } }',
      'snippets/proxy.conf': 'proxy_set_header Host $host;'
    },
    { APP: 'app.internal', ZONE: 'test' }
  )
  t.same(
    config.hosts.map(({ names }) => names),
    [['a.test', '*'], ['b.test']]
  )
  t.match(parse(site).sites, { 'a.test': { backend: 'http://${MISSING}:3000' }, 'b.test': 'http://app.internal:3000' })
  t.equal(config.statements.find(({ text }) => text.startsWith('proxy_set_header'))?.at.file, 'snippets/proxy.conf')
})

t.test('a file that is missing or includes itself is refused with its place', async (t) => {
  await t.rejects(importNginx({ 'a.conf': '\n include b.conf;' }), {
    code: 'IMPORT_INCLUDE',
    message: /^a\.conf:2:2: b\.conf cannot be read/
  })
  await t.rejects(importNginx({ 'a.conf': 'include a.conf;' }), {
    code: 'IMPORT_INCLUDE',
    message: /include each other/
  })
})
