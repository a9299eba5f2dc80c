import { readHaproxy } from '../../../../src/capabilities/import/haproxy/read.js'
import { readNgrok } from '../../../../src/capabilities/import/ngrok/read.js'
import { readTraefik } from '../../../../src/capabilities/import/traefik/read.js'
import type { WholeFiles } from './shape.js'

const HASH = '$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG'

const DEFAULTS = `global
  log /dev/log local0
  maxconn 4000
  user haproxy
  group haproxy
  daemon
defaults
  mode http
  log global
  option httplog
  option dontlognull
  option forwardfor
  timeout connect 5s
  timeout client 50s
  timeout server 50s
`

/** Seven files of HAProxy. */
export const HAPROXY: WholeFiles = {
  read: readHaproxy,
  file: 'haproxy.cfg',
  files: [
    {
      name: 'a web farm with checks',
      text: `${DEFAULTS}
frontend web
  bind *:80
  default_backend servers
backend servers
  balance roundrobin
  option httpchk GET /healthz
  server web1 10.0.0.1:8080 check weight 2
  server web2 10.0.0.2:8080 check
  server web3 10.0.0.3:8080 check backup
`,
      visits: [{ host: 'any.test', path: '/a', status: 200, target: '/a' }]
    },
    {
      name: 'hosts and paths that choose a backend',
      text: `${DEFAULTS}
frontend web
  bind :80
  acl is_api path_beg /api/
  acl is_static path_end .css .js .png
  acl host_blog hdr(host) -i blog.example.test
  http-request set-header X-Client %[src]
  use_backend api if is_api
  use_backend static if is_static
  use_backend blog if host_blog
  default_backend app
backend api
  server a 10.0.0.1:4000
backend static
  server a 10.0.0.2:80
backend blog
  server a 10.0.0.3:80
backend app
  balance leastconn
  server a 10.0.0.4:3000
  server b 10.0.0.5:3000
`,
      visits: [
        { host: 'any.test', path: '/api/1', status: 200, target: '/api/1' },
        { host: 'blog.example.test', path: '/post', status: 200, target: '/post' }
      ]
    },
    {
      name: 'TLS with a redirect',
      text: `${DEFAULTS}
frontend web
  bind *:80
  bind *:443 ssl crt /etc/ssl/both.pem alpn h2,http/1.1
  http-request redirect scheme https code 301 unless { ssl_fc }
  http-response set-header Strict-Transport-Security max-age=31536000
  default_backend app
backend app
  server a 127.0.0.1:3000
`,
      visits: [
        { host: 'a.example.test', path: '/x', status: 301, location: 'https://a.example.test/x' },
        { port: 443, host: 'a.example.test', path: '/x', status: 200, target: '/x' }
      ]
    },
    {
      name: 'a limit by a stick table',
      text: `${DEFAULTS}
frontend web
  bind *:80
  stick-table type ip size 100k expire 60s store http_req_rate(60s)
  http-request track-sc0 src
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt 100 }
  default_backend app
backend app
  server a 127.0.0.1:3000 check
`,
      visits: [{ host: 'any.test', path: '/x', status: 200, target: '/x' }]
    },
    {
      name: 'answers, and paths that are denied',
      text: `${DEFAULTS}
frontend web
  bind *:8080
  acl bad path_beg /.git /.env
  http-request deny deny_status 404 if bad
  http-request return status 200 content-type text/plain string "up" if { path /up }
  http-request redirect location /new code 302 if { path /old }
  default_backend app
backend app
  cookie SRV insert indirect nocache
  server a 10.0.0.1:3000 cookie a
  server b 10.0.0.2:3000 cookie b
`,
      visits: [
        { port: 8080, host: 'any.test', path: '/.env', status: 404 },
        { port: 8080, host: 'any.test', path: '/up', status: 200, body: 'up' },
        { port: 8080, host: 'any.test', path: '/old', status: 302, location: '/new' },
        { port: 8080, host: 'any.test', path: '/x', status: 200, target: '/x' }
      ]
    },
    {
      name: 'TCP for a database beside HTTP',
      text: `${DEFAULTS}
frontend web
  bind *:80
  default_backend app
backend app
  server a 127.0.0.1:3000
listen postgres
  mode tcp
  bind *:5432
  option pgsql-check user haproxy
  server db1 10.0.0.1:5432 check
  server db2 10.0.0.2:5432 check backup
`,
      visits: [{ host: 'any.test', path: '/x', status: 200, target: '/x' }]
    },
    {
      name: 'a script that decides, which is not converted',
      text: `global
  lua-load /etc/haproxy/auth.lua
defaults
  mode http
  timeout connect 5s
  timeout client 50s
  timeout server 50s
frontend web
  bind *:80
  http-request lua.check
  default_backend app
backend app
  server a 127.0.0.1:3000
`,
      isPart: true,
      visits: [{ host: 'any.test', path: '/x', status: 503 }]
    }
  ]
}

/** Files of Traefik. */
export const TRAEFIK: WholeFiles = {
  read: readTraefik,
  file: 'compose.yaml',
  files: [
    {
      name: 'a compose file with middlewares',
      text: `services:
  traefik:
    image: traefik:v3
    command:
      - --entrypoints.web.address=:80
      - --providers.docker=true
    ports: ["80:80"]
  app:
    image: app
    labels:
      - traefik.enable=true
      - traefik.http.routers.app.rule=Host(\`app.example.test\`)
      - traefik.http.routers.app.entrypoints=web
      - traefik.http.routers.app.middlewares=safe
      - traefik.http.middlewares.safe.headers.customresponseheaders.X-Frame-Options=DENY
      - traefik.http.services.app.loadbalancer.server.port=3000
  api:
    image: api
    labels:
      traefik.enable: "true"
      traefik.http.routers.api.rule: Host(\`app.example.test\`) && PathPrefix(\`/api\`)
      traefik.http.routers.api.entrypoints: web
      traefik.http.routers.api.middlewares: strip
      traefik.http.middlewares.strip.stripprefix.prefixes: /api
      traefik.http.services.api.loadbalancer.server.port: "4000"
`,
      visits: [
        { host: 'app.example.test', path: '/x', status: 200, target: '/x' },
        { host: 'app.example.test', path: '/api/orders', status: 200, target: '/orders' }
      ]
    },
    {
      name: 'labels with passwords and a limit',
      text: `services:
  admin:
    image: admin
    labels:
      - "traefik.http.routers.admin.rule=Host(\`admin.example.test\`)"
      - "traefik.http.routers.admin.entrypoints=web"
      - "traefik.http.routers.admin.middlewares=auth,slow"
      - "traefik.http.middlewares.auth.basicauth.users=anna:${HASH.replaceAll('$', '$$$$')}"
      - "traefik.http.middlewares.slow.ratelimit.average=10"
      - "traefik.http.middlewares.slow.ratelimit.burst=50"
      - "traefik.http.services.admin.loadbalancer.server.port=8080"
`,
      visits: [{ host: 'admin.example.test', path: '/x', status: 401 }]
    },
    {
      name: 'a dynamic file with two services',
      text: `http:
  routers:
    web:
      rule: Host(\`web.example.test\`) || Host(\`www.example.test\`)
      entryPoints: [web]
      service: web
      middlewares: [zip]
    old:
      rule: Host(\`old.example.test\`)
      entryPoints: [web]
      service: web
      middlewares: [move]
  middlewares:
    zip:
      compress: {}
    move:
      redirectRegex:
        regex: ^https?://old\\.example\\.test/(.*)
        replacement: https://web.example.test/\${1}
        permanent: true
  services:
    web:
      loadBalancer:
        servers:
          - url: http://10.0.0.1:8080
          - url: http://10.0.0.2:8080
        healthCheck:
          path: /healthz
`,
      visits: [
        { host: 'www.example.test', path: '/x', status: 200, target: '/x' },
        { host: 'old.example.test', path: '/x', status: 301, location: 'https://web.example.test/x' }
      ]
    }
  ]
}

/** Files of the agent of ngrok. */
export const NGROK: WholeFiles = {
  read: readNgrok,
  file: 'ngrok.yml',
  files: [
    {
      name: 'tunnels of version 2',
      text: `version: "2"
authtoken: not-a-token
region: eu
tunnels:
  web:
    proto: http
    addr: 3000
    hostname: web.example.test
    schemes: [http]
    compression: true
  hook:
    proto: http
    addr: 127.0.0.1:8000
    domain: hook.example.test
    schemes: [http]
    request_header:
      add: ["x-env: dev"]
`,
      visits: [
        { host: 'web.example.test', path: '/x', status: 200, target: '/x' },
        { host: 'hook.example.test', path: '/y', status: 200, target: '/y' }
      ]
    },
    {
      name: 'endpoints of version 3',
      text: `version: 3
agent:
  authtoken: not-a-token
endpoints:
  - name: app
    url: http://app.example.test
    upstream:
      url: http://localhost:3000
    traffic_policy:
      on_http_request:
        - expressions: ["req.url.path.startsWith('/admin')"]
          actions: [{ type: deny, config: { status_code: 404 } }]
`,
      visits: [
        { host: 'app.example.test', path: '/x', status: 200, target: '/x' },
        { host: 'app.example.test', path: '/admin', status: 404 }
      ]
    }
  ]
}
