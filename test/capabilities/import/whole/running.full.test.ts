import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request } from 'node:http'
import { request as requestTls } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { ImportedConfig, ImportedListener } from '../../../../src/capabilities/import/model.js'
import { withoutClashes, writeSiteFile } from '../../../../src/capabilities/import/site-file.js'
import { makeServerCertificate } from '../../../../src/lib/self-signed.js'
import { startSluice } from '../../../helpers/sluice.js'
import { folderOf } from '../../../proxy/files/folder.js'
import { freePort } from '../../../proxy/free-port.js'
import { importWith } from '../kit.js'
import { CADDY } from './caddy.js'
import { NGINX } from './nginx.js'
import { HAPROXY, NGROK, TRAEFIK } from './others.js'
import type { Visit, WholeFile, WholeFiles } from './shape.js'

/** Each of the files runs: the product loads its site file and answers as the source says. */

const SETS: Readonly<Record<string, WholeFiles>> = {
  nginx: NGINX,
  caddy: CADDY,
  haproxy: HAPROXY,
  traefik: TRAEFIK,
  ngrok: NGROK
}

/** An upstream for all files, which answers with the target that it got. */
async function startUpstream(t: Test): Promise<number> {
  const server = createServer((got, response) => response.end(`target ${got.url}`))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** The folders and files that the sources name. */
async function startFolder(t: Test): Promise<string> {
  const { cert, key } = await makeServerCertificate('CN=example.test', ['example.test', '*.example.test'], {
    now: Date.now(),
    life: 86_400_000
  })
  return await folderOf(t, {
    'srv/dist/index.html': 'home',
    'srv/docs/index.html': 'home',
    'srv/docs/internal/secret.txt': 'secret',
    'srv/errors/50x.html': 'error',
    'srv/static/a.txt': 'static',
    'ssl/site.pem': cert,
    'ssl/site.key': key,
    'ssl/both.pem': `${cert}${key}`,
    'ssl/htpasswd': 'anna:$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n'
  })
}

/** The configuration with the upstream of the test in place of its own. */
function withUpstream(config: ImportedConfig, port: number): ImportedConfig {
  const upstreams = config.upstreams.map(({ tls: _tls, healthPath: _health, ...upstream }) => ({
    ...upstream,
    servers: [{ url: `${upstream.servers[0]?.url.startsWith('tcp:') === true ? 'tcp' : 'http'}://127.0.0.1:${port}` }]
  }))
  return { ...config, upstreams }
}

async function visit(port: number, isTls: boolean, { host, path = '/', headers = {} }: Visit) {
  const options = { host: '127.0.0.1', port, path, headers: { host, ...headers }, agent: false }
  const sent = isTls ? requestTls({ ...options, servername: host, rejectUnauthorized: false }) : request(options)
  sent.end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  let body = ''
  for await (const chunk of answer.setEncoding('utf8')) body += chunk
  return { status: answer.statusCode, location: answer.headers.location, body }
}

async function run(
  t: Test,
  set: WholeFiles,
  { text, others = {}, visits }: WholeFile,
  shared: { folder: string; upstream: number }
) {
  const local = (source: string) =>
    source.replaceAll('/srv/', `${shared.folder}/srv/`).replaceAll('/etc/ssl/', `${shared.folder}/ssl/`)
  const { config, site: original } = await importWith(set.read, { [set.file]: local(text), ...others })
  const ports = new Map<ImportedListener, number>()
  const listeners = withoutClashes(config.listeners)
  for (const listener of listeners) ports.set(listener, await freePort())
  const tcp = []
  for (const edge of config.tcp ?? []) tcp.push({ ...edge, port: await freePort() })
  const served = withUpstream({ ...config, tcp }, shared.upstream)
  const { text: site } = writeSiteFile(served, { portOf: (listener) => ports.get(listener) as number })
  const place = t.testdir({})
  await mkdir(place, { recursive: true })
  await writeFile(join(place, 'site.yaml'), site)
  await startSluice(t, {
    options: { SITE_FILE: join(place, 'site.yaml'), JWT_KEY_FOLDERS: join(shared.folder, 'ssl') }
  })
  for (const one of visits) {
    const listener = listeners.find(({ port }) => port === (one.port ?? 80))
    t.ok(listener, `the listener at ${one.port ?? 80}\n${original}`)
    if (listener === undefined) continue
    const got = await visit(ports.get(listener) as number, listener.tls, one)
    const what = `${one.host}${one.path ?? '/'}`
    const matches = got.status === one.status
    t.equal(got.status, one.status, matches ? what : `${what}\n${site}`)
    if (one.target !== undefined) t.equal(got.body, `target ${one.target}`, what)
    if (one.body !== undefined) t.match(got.body, one.body, what)
    if (one.location !== undefined) {
      const found = new URL(got.location ?? '', `http://${one.host}`)
      const wanted = new URL(one.location, `http://${one.host}`)
      t.equal(found.hostname + found.pathname + found.search, wanted.hostname + wanted.pathname + wanted.search, what)
    }
  }
}

t.test('the product serves each file', async (t) => {
  const shared = { folder: await startFolder(t), upstream: await startUpstream(t) }
  for (const [format, set] of Object.entries(SETS))
    for (const file of set.files) await t.test(`${format}: ${file.name}`, (t) => run(t, set, file, shared))
})
