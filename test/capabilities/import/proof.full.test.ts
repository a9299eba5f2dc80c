import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { runCommand } from '../../cli/command.js'
import { freePort } from '../../proxy/free-port.js'
import { NEEDS_NGINX, startNginx } from './real-nginx.js'

const http = (port: number, upstreams: readonly number[], changed = false) => `
  upstream app { server 127.0.0.1:${upstreams[0]}; }
  map $http_x_plan $plan { default free; gold paid; }
  server {
    listen 127.0.0.1:${port};
    server_name shop.test www.shop.test;
    proxy_set_header Host $http_host;
    proxy_set_header X-Real-IP $remote_addr;
    proxy_set_header X-Plan $plan;
    add_header X-Frame-Options DENY;
    if ($host = www.shop.test) { return 301 http://shop.test$request_uri; }
    rewrite ^/legacy/(.*)$ /api/$1 last;
    location / { proxy_pass http://app; }
    location /api/ { proxy_pass http://127.0.0.1:${upstreams[1]}/${changed ? 'v2' : 'v1'}/; }
    location = /healthz { return 200 "ok\\n"; }
    location ^~ /assets/ { proxy_pass http://127.0.0.1:${upstreams[1]}; }
    location ~* \\.(png|jpe?g)$ { proxy_pass http://127.0.0.1:${upstreams[1]}; add_header X-Image yes always; }
    location ~ ^/user/(\\d+)/profile$ { proxy_pass http://app/profile?id=$1; }
    location /denied/ { return 403; }
    location /gone { return ${changed ? '410' : '444'}; }
    location /move/ { rewrite ^/move/(.*)$ /moved/$1 permanent; }
    location /strip/ { rewrite ^/strip(/.*)$ $1 break; proxy_pass http://app; }
    location /docs { proxy_pass http://app; proxy_set_header Host $host; }
    location /ws/ {
      proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection "upgrade";
    }
  }
  server { listen 127.0.0.1:${port}; server_name other.test *.wild.test; location / { return 404; } }`

interface Report {
  readonly counts: { readonly exact: number; readonly close: number; readonly not_here: number }
  readonly proof: {
    readonly requests: number
    readonly matrix: Readonly<
      Record<string, { readonly same: number; readonly explained: number; readonly unexplained: number }>
    >
    readonly differences: readonly { readonly explained: boolean; readonly target: string; readonly line?: number }[]
  }
}

t.test('the proof passes for what is converted, and names the line of what differs', NEEDS_NGINX, async (t) => {
  const ports = [await freePort(), await freePort(), await freePort()]
  const [port = 0, ...upstreams] = ports
  const file = await startNginx(t, http(port, upstreams), port)
  const cwd = t.testdir({})
  const words = ['import', 'nginx', file, '-o', 'site.yaml', '--overwrite', '--report', 'json']
  const record = [
    '--prove',
    '--old',
    `http://127.0.0.1:${port}`,
    '--upstreams',
    'record',
    '--record-ports',
    upstreams.join()
  ]

  const passed = await runCommand(t, [...words, ...record, '--all-methods'], { cwd })
  t.equal(passed.err, '')
  const report = JSON.parse(passed.out) as Report
  t.same(
    report.proof.differences.filter(({ explained }) => !explained),
    []
  )
  t.equal(passed.code, 0, passed.err)
  t.equal(report.counts.not_here, 0)
  t.ok(report.proof.requests > 250, `${report.proof.requests} requests`)
  const { path, upgrade } = report.proof.matrix
  t.ok(path !== undefined && path.same > 150 && path.explained < path.same / 5, JSON.stringify(report.proof.matrix))
  t.ok(upgrade !== undefined && upgrade.same >= 1, 'a WebSocket is opened through both')
  const site = await readFile(join(cwd, 'site.yaml'), 'utf8')
  t.match(parse(site), { sites: { 'shop.test': { hosts: ['www.shop.test', '*'] } } })
  t.match((await runCommand(t, ['check', 'site.yaml'], { cwd })).out, /1 valid \(0 errors, 0 warnings\)/)

  // The file says something else than what the old server does.
  const wrong = join(cwd, 'wrong.conf')
  await writeFile(wrong, (await readFile(file, 'utf8')).replace('/v1/', '/v2/').replace('return 444', 'return 410'))
  const failed = await runCommand(t, ['import', 'nginx', wrong, '-o', 'wrong.yaml', '--report', 'json', ...record], {
    cwd
  })
  t.equal(failed.code, 1)
  const lines = (await readFile(wrong, 'utf8')).split('\n')
  const lineOf = (text: string) => lines.findIndex((line) => line.includes(text)) + 1
  const found = (JSON.parse(failed.out) as Report).proof.differences.filter(({ explained }) => !explained)
  t.ok(
    found.some(({ line }) => line === lineOf('location /api/')),
    'the wrong path is found'
  )
  t.ok(
    found.some(({ line }) => line === lineOf('location /gone')),
    'the wrong answer is found'
  )
  t.ok(
    found.every(({ line }) =>
      [lineOf('location /api/'), lineOf('location /gone'), lineOf('rewrite ^/legacy')].includes(line ?? 0)
    ),
    JSON.stringify(found)
  )

  await writeFile(
    join(cwd, 'access.log'),
    '10.0.0.1 - - [28/Nov/2026:09:00:00 +0000] "GET /healthz HTTP/1.1" 200 3 "-" "curl"\n10.0.0.1 - - [x] "POST /api/ HTTP/1.1" 200 3\n'
  )
  const fromLog = await runCommand(t, [...words.slice(0, 6), ...record, '--requests', 'access.log'], { cwd })
  t.equal(fromLog.code, 0, fromLog.err)
  t.match(fromLog.out, /proof by 1 requests?\n/)
  t.match(fromLog.out, /recorded +1 +0 +0/)
})

t.test('exit codes', async (t) => {
  const cwd = t.testdir({
    'good.conf': 'server { server_name a.test; location / { proxy_pass http://127.0.0.1:3000; } }',
    'php.conf': 'server { server_name a.test; location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; } }',
    'bad.conf': 'server {\n listen 80'
  })
  const run = (...words: string[]) => runCommand(t, ['import', 'nginx', ...words], { cwd })
  const good = await run('good.conf')
  t.equal(good.code, 0)
  t.match(
    parse(good.out),
    { sites: { 'a.test': { backend: 'http://127.0.0.1:3000' } } },
    'the site file alone is on standard output'
  )
  t.match(good.err, /good\.conf:1 +exact +server \{\n[\s\S]*4 statements: 3 exact, 1 close, 0 not here/)
  const php = await run('php.conf', '-o', 'site.yaml')
  t.equal(php.code, 1)
  t.match(php.out, /php\.conf:1 +not here +fastcgi_pass 127\.0\.0\.1:9000;\n +Sluice does not speak FastCGI/)
  t.match(await run('php.conf', '-o', 'site.yaml'), { code: 2, err: /EEXIST|exists/ })
  t.match(await run('bad.conf'), { code: 2, err: /bad\.conf:2:2: "listen" has no ";"/ })
  t.match(await run('none.conf'), { code: 2, err: /none\.conf/ })
  t.match(await run('good.conf', '--prove'), { code: 2, err: /give --old URL/ })
  t.match(await run('good.conf', '--old', 'http://127.0.0.1:1'), { code: 2, err: /belong to --prove/ })
  t.match(await run('good.conf', '--report', 'xml'), { code: 2, err: /--report is text or json/ })
  t.match(
    await runCommand(t, ['import', 'account.yaml', '--dry-run'], { cwd }),
    { code: 1, err: /account\.yaml/ },
    'an export of an account'
  )
})
