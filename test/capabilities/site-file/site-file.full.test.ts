import { X509Certificate } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { request as requestTls } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import t from 'tap'
import { makeServerCertificate } from '../../../src/lib/self-signed.js'
import { SluiceProcess } from '../../cli/process.js'

const KEY = 'test-key-that-is-long-enough-0123456789'
const DENY_ADMIN =
  'on_http_request:\n  - expressions: ["req.url.path.startsWith(\'/admin\')"]\n    actions:\n      - type: deny\n        config: {status_code: 403}\n'

type Test = typeof t

/** A server that answers with its name. */
async function upstream(t: Pick<Test, 'teardown' | 'testdir'>, name: string): Promise<string> {
  const server = createServer((_, response) => response.end(name))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

interface Answer {
  readonly status: number
  readonly text: string
}

/** One request with this host. */
function get(url: string, host: string, path = '/'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(new URL(path, url), { headers: { host }, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end()
  })
}

async function call(api: string, method: string, path: string, body?: unknown) {
  const response = await fetch(`${api}${path}`, {
    method,
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'ngrok-version': '2' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  const text = await response.text()
  return { status: response.status, body: text === '' ? null : (JSON.parse(text) as Record<string, unknown>) }
}

/** Starts the product with the file in a folder of its own. */
async function started(t: Pick<Test, 'teardown' | 'testdir'>, files: Record<string, string>) {
  const cwd = t.testdir(files)
  const words = ['start', 'sluice.yaml', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--data', ':memory:']
  const sluice = new SluiceProcess(t, words, { cwd, env: { SLUICE_API_KEY: KEY } })
  const { traffic, api } = (await sluice.logged('listening')) as { traffic: string; api: string }
  const save = (name: string, text: string) => writeFile(join(cwd, name), text)
  return { sluice, traffic, api, cwd, save }
}

t.test('a file serves; what is saved serves too, under traffic, and says what changed', async (t) => {
  const [web, api] = await Promise.all([upstream(t, 'web'), upstream(t, 'api')])
  const backends = `backends:\n  web: { servers: ["${web}"] }\n  api: { servers: ["${api}"] }\n`
  const sites = 'sites:\n  a.test: { policy: p.yaml, routes: { /: web, /api/: api } }\n'
  const { sluice, traffic, save } = await started(t, { 'sluice.yaml': sites + backends, 'p.yaml': DENY_ADMIN })
  t.same(await get(traffic, 'a.test'), { status: 200, text: 'web' })
  t.same(await get(traffic, 'a.test', '/api/x'), { status: 200, text: 'api' })
  t.match(await get(traffic, 'a.test', '/admin'), { status: 403 })
  t.match(await get(traffic, 'b.test'), { status: 404 })

  let ended = false
  const seen = new Map<string, number>()
  const load = Array.from({ length: 4 }, async () => {
    while (!ended) {
      const { status, text } = await get(traffic, 'a.test')
      seen.set(`${status} ${text}`, (seen.get(`${status} ${text}`) ?? 0) + 1)
    }
  })
  const more = sites.replace('/: web', '/: api').concat('  b.test: { backend: web }\n')
  await save('sluice.yaml', more + backends)
  t.match(await sluice.logged('reloaded"'), { added: ['site b.test'], changed: ['site a.test'], removed: [] })
  t.same(await get(traffic, 'b.test'), { status: 200, text: 'web' })
  t.same(await get(traffic, 'a.test'), { status: 200, text: 'api' })
  ended = true
  await Promise.all(load)
  t.same(new Set(seen.keys()), new Set(['200 web', '200 api']), 'no request was dropped')

  await save('p.yaml', DENY_ADMIN.replace('/admin', '/hidden'))
  t.match(await sluice.logged('reloaded"', 2), { changed: ['site a.test'] })
  t.match(await get(traffic, 'a.test', '/hidden'), { status: 403 })
  t.match(await get(traffic, 'a.test', '/admin'), { status: 200 })
})

t.test('files that are imported are applied again when they are saved', async (t) => {
  const web = await upstream(t, 'web')
  const { sluice, traffic, save } = await started(t, {
    'sluice.yaml': `import: sites.yaml\nbackends:\n  web: { servers: ["${web}"] }\n`,
    'sites.yaml': 'sites:\n  a.test: web\n'
  })
  t.same(await get(traffic, 'a.test'), { status: 200, text: 'web' })
  await save('sites.yaml', 'sites:\n  a.test: web\n  b.test: web\n')
  t.match(await sluice.logged('reloaded"'), { added: ['site b.test'], changed: [], removed: [] })
  t.same(await get(traffic, 'b.test'), { status: 200, text: 'web' })
  await save('sites.yaml', 'sites:\n  a.test: wbe\n')
  t.match(await sluice.told('NAME_UNKNOWN'), /sites\.yaml:2:11/)
  t.same(await get(traffic, 'b.test'), { status: 200, text: 'web' }, 'what served goes on')
})

t.test('listeners of the file take the place of the default listener, not of one that was asked for', async (t) => {
  const port = await freePort()
  const cwd = t.testdir({
    'sluice.yaml': `listeners: [http://127.0.0.1:${port}]\nsites: { a.test: { backend: { response: { body: a } } } }\n`
  })
  const listening = async (...more: string[]) => {
    const words = ['start', 'sluice.yaml', '--api', '127.0.0.1:0', '--data', ':memory:', ...more]
    const sluice = new SluiceProcess(t, words, { cwd, env: { SLUICE_API_KEY: KEY } })
    const { traffic, api } = (await sluice.logged('listening')) as { traffic: string; api: string }
    const { body } = await call(api, 'GET', '/map')
    t.same(await get(`http://127.0.0.1:${port}`, 'a.test'), { status: 200, text: 'a' })
    sluice.child.kill('SIGTERM')
    await sluice.ended()
    const { listeners } = body as unknown as { readonly listeners: readonly { readonly key: string }[] }
    return { traffic, keys: listeners.map(({ key }) => key) }
  }
  const own = `listener:127.0.0.1:${port}`
  t.same(await listening(), { traffic: `http://127.0.0.1:${port}`, keys: [own] })
  t.same((await listening('--listen', '127.0.0.1:0')).keys.sort(), [own, 'listener:default'])
})

t.test(
  'the policy of a site and that of a route both decide, and one limit counts for all routes of the site',
  async (t) => {
    const web = await upstream(t, 'web')
    const site =
      'on_http_request:\n  - expressions: ["req.url.path.endsWith(\'/admin\')"]\n    actions:\n      - type: deny\n' +
      '  - expressions: ["req.url.path.endsWith(\'/few\')"]\n    actions:\n      - type: rate-limit\n' +
      '        config: {name: few, algorithm: sliding_window, capacity: 1, rate: 60s, bucket_key: [conn.client_ip]}\n'
    const text =
      'sites:\n  a.test: { policy: site.yaml, routes: { /: web, /api/: { backend: web, policy: route.yaml } } }\n' +
      `backends: { web: { servers: ["${web}"] } }\n`
    const route = DENY_ADMIN.replace('/admin', '/api/hidden')
    const { traffic } = await started(t, { 'sluice.yaml': text, 'site.yaml': site, 'route.yaml': route })
    const statuses: number[] = []
    for (const path of ['/admin', '/api/admin', '/api/hidden', '/hidden', '/api/few', '/few']) {
      statuses.push((await get(traffic, 'a.test', path)).status)
    }
    t.same(statuses, [403, 403, 403, 200, 200, 429])
  }
)

t.test('what is broken changes nothing: a wrong name, an empty file, an empty or missing policy', async (t) => {
  const web = await upstream(t, 'web')
  const good = `sites:\n  a.test: { policy: p.yaml, backend: web }\nbackends: { web: { servers: ["${web}"] } }\n`
  const { sluice, traffic, save, cwd } = await started(t, { 'sluice.yaml': good, 'p.yaml': DENY_ADMIN })
  const stays = async () => {
    t.match(await get(traffic, 'a.test', '/admin'), { status: 403 })
    t.same(await get(traffic, 'a.test'), { status: 200, text: 'web' })
  }
  let refused = 0
  const refuses = async (text: string) => {
    await sluice.logged('reload failed', ++refused)
    await sluice.told(text)
    await stays()
  }
  await save('sluice.yaml', good.replace('backend: web', 'backend: wbe'))
  await refuses('sluice.yaml:2:38: error NAME_UNKNOWN: there is no backend "wbe"; did you mean "web"?')
  await save('sluice.yaml', '')
  await refuses('sluice.yaml:1:1: error DOCUMENT_EMPTY')
  await save('sluice.yaml', good.replace('policy: p.yaml, ', ''))
  await refuses('sluice.yaml:2:3: error POLICY_MISSING')
  await save('sluice.yaml', good.concat('\n'))
  await save('p.yaml', '')
  await refuses('p.yaml:1:1: error DOCUMENT_EMPTY')
  await rm(join(cwd, 'p.yaml'))
  await sluice.logged('a configuration file cannot be read any more')
  sluice.child.kill('SIGHUP')
  await refuses('sluice.yaml:2:21: error FILE_UNREADABLE: the policy "p.yaml" cannot be read: there is no such file')
})

t.test('the API shows what the file declares with its place, and changes none of it', async (t) => {
  const web = await upstream(t, 'web')
  const text = `sites:\n  a.test: { backend: web }\nbackends: { web: { servers: ["${web}"] } }\n`
  const { sluice, traffic, api, save } = await started(t, { 'sluice.yaml': text })
  const { body } = await call(api, 'GET', '/edges/https')
  const [edge] = (body?.https_edges ?? []) as Record<string, unknown>[]
  t.match(edge, { hostports: ['a.test:443'], declared: { file: 'sluice.yaml', line: 2 }, routes: [{ match: '/' }] })
  const at = `/edges/https/${edge?.id}`
  t.match(await call(api, 'GET', at), { status: 200, body: { declared: { file: 'sluice.yaml', line: 2 } } })
  const [route] = (edge?.routes ?? []) as Record<string, unknown>[]
  for (const [method, path, sent] of [
    ['DELETE', at],
    ['PATCH', at, { description: 'x' }],
    ['POST', `${at}/routes`, { match: '/x' }],
    ['PUT', `${at}/routes/${route?.id}/compression`, {}],
    ['DELETE', `${at}/routes/${route?.id}`]
  ] as const) {
    const { status, body } = await call(api, method, path, sent)
    t.match({ status, body }, { status: 409, body: { error_code: /DECLARED/ } }, `${method} ${path}`)
    t.match(body?.msg, /sluice\.yaml:2/)
  }
  t.match(await call(api, 'POST', '/edges/https', { hostports: ['a.test:443'] }), {
    status: 409,
    body: { msg: /taken by the site a\.test that sluice\.yaml:2 declares/ }
  })
  t.match(await call(api, 'POST', '/edges/https', { hostports: ['b.test:443'] }), { status: 201 })
  const hosts: unknown[] = []
  let page: string | null = '/edges/https?limit=1'
  while (page !== null && hosts.length < 5) {
    const { body } = await call(api, 'GET', page)
    hosts.push(...((body?.https_edges ?? []) as { hostports: string[] }[]).map(({ hostports }) => hostports[0]))
    page = (body?.next_page_uri as string | null)?.replace(api, '') ?? null
  }
  t.same(hosts, ['a.test:443', 'b.test:443'], 'each record stands on one page')
  await save('sluice.yaml', text.replace('a.test', 'b.test'))
  await sluice.logged('reload failed')
  await sluice.told('sluice.yaml:2:3: error ALREADY_EXISTS: site b.test: b.test:443 is taken by https_edge')
  t.same(await get(traffic, 'a.test'), { status: 200, text: 'web' })
})

/** The answer over TLS and the serial number of the certificate that came. */
function getTls(port: number, host: string): Promise<{ text: string; serial: string }> {
  return new Promise((resolve, reject) => {
    const about = {
      host: '127.0.0.1',
      port,
      servername: host,
      headers: { host },
      rejectUnauthorized: false,
      agent: false
    }
    const sent = requestTls(about, (response) => {
      const serial = (response.socket as TLSSocket).getPeerCertificate().serialNumber
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () => resolve({ text, serial }))
    })
    sent.on('error', reject)
    sent.end()
  })
}

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

t.test('HTTPS with certificates from files, renewed while it serves, and a TCP edge', async (t) => {
  const make = () => makeServerCertificate('CN=a.test', ['a.test'], { now: Date.now(), life: 86_400_000 * 9 })
  const serialOf = ({ cert }: { cert: string }) => new X509Certificate(cert).serialNumber
  const [web, port, tcp, first, second] = await Promise.all([
    upstream(t, 'web'),
    freePort(),
    freePort(),
    make(),
    make()
  ])
  const text =
    `listeners: ["https://127.0.0.1:${port}"]\ncertificates: [{ certificate: a.pem, key: a.key }]\n` +
    `sites: { a.test: { backend: web } }\ntcp: { "127.0.0.1:${tcp}": web }\nbackends: { web: { servers: ["${web}"] } }\n`
  const { sluice, save } = await started(t, { 'sluice.yaml': text, 'a.pem': first.cert, 'a.key': first.key })
  t.same(await getTls(port, 'a.test'), { text: 'web', serial: serialOf(first) })
  t.same(await get(`http://127.0.0.1:${tcp}`, 'any.test'), { status: 200, text: 'web' })
  await save('a.key', second.key)
  await save('a.pem', second.cert)
  t.match(await sluice.logged('reloaded"'), { changed: ['certificate a.pem'] })
  t.same(await getTls(port, 'a.test'), { text: 'web', serial: serialOf(second) })
  await save('sluice.yaml', text.replace(/tcp: .*\n/, ''))
  t.match(await sluice.logged('reloaded"', 2), { removed: [`TCP edge 127.0.0.1:${tcp}`] })
  await t.rejects(get(`http://127.0.0.1:${tcp}`, 'any.test'), { code: 'ECONNREFUSED' })
})

t.test('a start with a broken file says where it is broken', async (t) => {
  const cwd = t.testdir({ 'sluice.yaml': 'sites:\n  a.test: { backend: web }\n' })
  const words = ['start', '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--data', ':memory:']
  const { code, err } = await new SluiceProcess(t, words, { cwd, env: { SLUICE_SITE_FILE: 'sluice.yaml' } }).ended()
  t.equal(code, 1)
  t.match(err, 'sluice.yaml:2:22: error NAME_UNKNOWN: there is no backend "web"')
})
