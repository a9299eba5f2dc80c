import { createHash } from 'node:crypto'
import { request } from 'node:http'
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { serverCapabilities } from '../../../src/capabilities/registry.js'
import { openAccount } from '../account.js'

/** All that a browser may have to load, compressed. Bytes. */
const BUDGET = 300 * 1024

t.test('the dashboard needs no key, loads nothing from elsewhere and is small', async (t) => {
  const { ask, faults, port } = await openAccount(t)
  const read = (path: string, headers = {}) =>
    ask(path, { headers: { authorization: '', 'service-version': '', ...headers } })
  const page = await read('/')
  t.equal(page.status, 200)
  t.match(page.headers['content-type'], /^text\/html/)
  const policy = String(page.headers['content-security-policy'])
  const map = /<script type="importmap">([\s\S]*?)<\/script>/.exec(page.text)?.[1] ?? ''
  const hash = createHash('sha256').update(map).digest('base64')
  t.match(policy, `script-src 'self' 'sha256-${hash}';`, 'no script but files of ours')
  t.match(policy, /default-src 'none'.*style-src 'self'.*connect-src 'self'/)
  t.notMatch(policy, /https?:|\*|unsafe/)
  t.notMatch(
    page.text,
    /https?:|(?:src|href)="\/|\son\w+=|\sstyle=|<style/,
    'no host, no absolute path, no inline code'
  )

  const found = new Set<string>(['/'])
  const waiting = [
    ...references(page.text),
    ...Object.values<string>(JSON.parse(map).imports).filter((path) => !path.endsWith('/'))
  ]
  const loaded: string[] = []
  let bytes = 0
  for (let reference = waiting.pop(); reference !== undefined; reference = waiting.pop()) {
    const { pathname } = new URL(reference, 'http://localhost/')
    if (found.has(pathname) || pathname === '/docs') continue
    found.add(pathname)
    loaded.push(pathname)
    const file = await read(pathname)
    t.equal(file.status, 200, pathname)
    t.equal(file.headers['x-content-type-options'], 'nosniff', pathname)
    t.equal(file.headers['content-security-policy'], policy, pathname)
    const packed = await fetchPacked(port, pathname)
    t.equal(packed.toString('latin1', 0, 2), '\x1f\x8b', `${pathname} is compressed`)
    t.equal(gunzipSync(packed).toString(), file.text)
    bytes += packed.length
    if (pathname.startsWith('/dashboard/lib/')) continue
    t.notMatch(file.text, /(?:from |import\(|src=|href=|url\()["'`]?https?:|\beval\b|new Function|innerHTML/, pathname)
    // Comments import types, which no browser loads.
    const code = file.text.replace(/\/\*[\s\S]*?\*\//g, '')
    for (const [, name = ''] of code.matchAll(/(?:from|import\()\s*'(\.\/[\w/-]+\.js)'/g))
      waiting.push(new URL(name, `http://localhost${pathname}`).pathname)
    for (const [, name = ''] of code.matchAll(/(?:from|import\()\s*'(dashboard\/[\w-]+\.js)'/g)) waiting.push(name)
    for (const [, name = ''] of file.text.matchAll(/'(dashboard\/lib\/[\w.]+)'/g)) waiting.push(name)
  }
  t.ok(loaded.includes('/dashboard/limits/page.js'), 'the page of a capability is there')
  t.ok(loaded.length > 8, `${loaded.length} files`)
  t.ok(bytes <= BUDGET, `${Math.round(bytes / 1024)} KiB of ${BUDGET / 1024} in ${loaded.length} files`)
  t.comment(`${Math.round(bytes / 1024)} KiB compressed in ${loaded.length} files`)
  const kept = await read('/dashboard/app.js')
  const again = await read('/dashboard/app.js', { 'if-none-match': String(kept.headers.etag) })
  t.equal(again.status, 304, 'a browser that has it loads it no more')
  t.same(faults, [])
})

t.test('the navigation has a place for the page of each capability', async (t) => {
  const { ask } = await openAccount(t)
  const { text } = await ask('/dashboard/pages.js')
  const places = new Set([...text.matchAll(/\{ id: '([a-z]+)'/g)].map(([, id]) => id))
  const pages = (await serverCapabilities()).flatMap(({ page }) => page ?? [])
  t.ok(pages.length > 0)
  for (const { path, after } of pages) {
    t.ok(places.has(after), `${path} stands behind ${after}`)
    t.notOk(places.has(path), `${path} is the path of one page`)
  }
})

t.test('only the files of the dashboard are there', async (t) => {
  const { ask } = await openAccount(t)
  const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
  for (const path of [
    '/dashboard',
    '/dashboard/',
    '/dashboard/index.html',
    '/dashboard/..%2fdashboard.ts',
    '/dashboard/lib/preact.js',
    '/dashboard/limits/capability.js',
    '/dashboard/lib/..%2fapp.js'
  ]) {
    t.equal((await ask(path, { headers: browser })).status, 404, path)
  }
  t.equal((await ask('/', { method: 'POST' })).status, 405)
  t.equal((await ask('/', { headers: { ...browser, host: 'evil.example' } })).status, 403)
})

function references(page: string): readonly string[] {
  return [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => String(path))
}

async function fetchPacked(port: number, path: string): Promise<Buffer> {
  return await new Promise((resolve, reject) => {
    const sent = request({ port, host: '127.0.0.1', path, headers: { 'accept-encoding': 'gzip' } }, (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('end', () => resolve(Buffer.concat(chunks)))
    })
    sent.on('error', reject).end()
  })
}
