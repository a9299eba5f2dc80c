import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { projectFile } from '../../helpers/files.js'
import { startSluice } from '../../helpers/sluice.js'
import { freePort } from '../../proxy/free-port.js'

/** An upstream that answers with what it has got. */
async function echo(t: Test, name: string): Promise<number> {
  const server = createServer(({ url, headers }, response) => {
    response.setHeader('server', name)
    response.end(JSON.stringify({ name, url, headers }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

async function ask(port: number, path: string, headers: Record<string, string> = {}) {
  const sent = request({
    port,
    host: '127.0.0.1',
    path,
    headers: { host: 'app.example.com', ...headers },
    agent: false
  })
  const [response] = (await once(sent.end(), 'response')) as [IncomingMessage]
  let text = ''
  for await (const piece of response.setEncoding('utf8')) text += piece
  return { status: response.statusCode, headers: response.headers, got: text.startsWith('{') ? JSON.parse(text) : text }
}

const linesOf = (text: string) => text.trim().split('\n').length

t.test(
  'headers, a stripped prefix and redirects take no more lines than in a Caddyfile, and do what they say',
  async (t) => {
    const page = await readFile(projectFile('docs/migration.md'), 'utf8')
    const [, own = ''] = /```yaml sluice\.yaml\n(.*?)```/s.exec(page) ?? []
    const [, caddy = ''] = /```caddyfile Caddyfile\n(.*?)```/s.exec(page) ?? []
    t.ok(linesOf(own) <= linesOf(caddy), `${linesOf(own)} and ${linesOf(caddy)} lines`)
    const [web, api, port] = [await echo(t, 'web'), await echo(t, 'api'), await freePort()]
    const text = own.replace('0.0.0.0:80', `127.0.0.1:${port}`).replace(':3000', `:${web}`).replace(':3001', `:${api}`)
    const folder = t.testdir({ 'sites.yaml': text })
    await startSluice(t, { options: { SITE_FILE: join(folder, 'sites.yaml') } })
    const stripped = await ask(port, '/api/users?x=1', { 'x-client': 'forged' })
    t.match(stripped.got, { name: 'api', url: '/users?x=1', headers: { 'x-client': '127.0.0.1' } })
    t.match((await ask(port, '/api')).got, { url: '/' })
    t.match((await ask(port, '/api?x=1')).got, { url: '/?x=1' })
    t.match((await ask(port, '/apis')).got, { name: 'web', url: '/apis' }, 'a prefix ends where a segment ends')
    t.match([stripped.headers['x-frame-options'], stripped.headers.server], ['DENY', undefined])
    const moved = await ask(port, '/old/a?b=c')
    t.match([moved.status, moved.headers.location?.replace(/^http:\/\/app\.example\.com/, '')], [301, '/new/a?b=c'])
  }
)

t.test('they run after the policy of the route, which sees the path of the client', async (t) => {
  const [api, port] = [await echo(t, 'api'), await freePort()]
  const policy = `on_http_request: [{ expressions: ["req.url.path == '/v1/secret'"], actions: [{ type: deny }] }]`
  const sites = `listeners: [http://127.0.0.1:${port}]
sites:
  app.example.com:
    strip_prefix: /v1
    routes:
      /v1/: { backend: "http://127.0.0.1:${api}", policy: { ${policy} } }
      /kept/: { backend: "http://127.0.0.1:${api}", strip_prefix: false, rewrite: { from: ^/kept/, to: /v2/ } }
`
  await startSluice(t, { options: { SITE_FILE: join(t.testdir({ 'sites.yaml': sites }), 'sites.yaml') } })
  t.equal((await ask(port, '/v1/secret')).status, 403)
  t.match((await ask(port, '/v1/open')).got, { url: '/open' })
  t.match((await ask(port, '/kept/a')).got, { url: '/v2/a' })
})

t.test('what is wrong with them is reported with the field and its place', async (t) => {
  const cases: [field: string, message: RegExp][] = [
    ['strip_prefix: api', /strip_prefix is true, or a path/],
    ['strip_prefix: true', /needs a route with a path/],
    ['headers: { respond: {} }', /there is no "respond"/],
    ['headers: { request: { x-a: [1] } }', /headers is a map of request and response/],
    ['headers: { request: { "x a": 1 } }', /headers: .*x a/],
    ['headers: { response: { x-a: "${conn.nothing}" } }', /headers: .*conn\.nothing/],
    ['redirect: { to: /a, status: 301 }', /redirect has no "status"; it takes from, to, status_code/],
    ['redirect: { to: /a, status_code: 404 }', /redirect: .*status_code/],
    ['rewrite: { from: "(", to: /a }', /rewrite: /]
  ]
  for (const [field, message] of cases) {
    const sites = `sites:\n  app.example.com:\n    routes:\n      /: { backend: "http://127.0.0.1:1", ${field} }\n`
    const file = join(t.testdir({ 'sites.yaml': sites }), 'sites.yaml')
    const refused = await startSluice(t, { options: { SITE_FILE: file } }).catch((error: unknown) => error)
    t.match(refused, { problems: [{ problems: [{ line: 4, message }] }] }, field)
  }
})
