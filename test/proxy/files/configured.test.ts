import { join } from 'node:path'
import t, { type Test } from 'tap'
import { account, create, site, visit } from '../../helpers/account.js'
import { type RunningSluice, startSluice } from '../../helpers/sluice.js'
import { folderOf, place } from './folder.js'

const APP = {
  'public/index.html': 'app',
  'public/app.js': 'plain script',
  'public/app.js.br': 'br script',
  'public/app.js.gz': 'gz script',
  'public/sw.js': 'worker',
  'public/style.css': 'css',
  'public/style.css.zst': 'zst css',
  'public/assets/logo.svg': '<svg/>',
  'public/<b>&.txt': 'odd name'
}

async function withSite(
  t: Test,
  text: string,
  options: Readonly<Record<string, string>> = {}
): Promise<RunningSluice & { folder: string }> {
  const folder = await folderOf(t, { ...APP, 'site.yaml': text })
  const sluice = await startSluice(t, { options: { SITE_FILE: join(folder, 'site.yaml'), ...options } })
  return Object.assign(sluice, { folder })
}

t.test('a site file names folders in short and with what goes with them', async (t) => {
  const text = `sites:
  short.test: ./public
  route.test:
    routes:
      /: ./public
  app.test:
    files: ./public
    fallback: /index.html
    precompressed: [zst, br, gz]
    cache: { "*.{js,css}": 1y immutable, /sw.js: no-store, default: no-cache }
  named.test:
    routes:
      /: { backend: pages }
backends:
  pages: { files: ./public, index: [none.html, style.css], listing: true }
`
  const sluice = await withSite(t, text)
  t.equal((await visit(sluice, 'short.test')).body, 'app')
  t.equal((await visit(sluice, 'route.test', { path: '/assets/logo.svg' })).headers['content-type'], 'image/svg+xml')
  t.equal((await visit(sluice, 'named.test')).body, 'css')

  await t.test('a single-page application', async (t) => {
    for (const path of ['/', '/users/17', '/docs/v1.2', '/deep/link.html', '/assets/']) {
      const page = await visit(sluice, 'app.test', { path })
      t.equal(page.status, 200, path)
      t.equal(page.body, 'app', path)
      t.equal(page.headers['cache-control'], 'no-cache')
    }
    for (const path of ['/missing.js', '/assets/missing.svg', '/../secret', '/.env'])
      t.equal((await visit(sluice, 'app.test', { path })).status === 200, path === '/../secret', path)
    t.equal(
      (await visit(sluice, 'app.test', { path: '/app.js' })).headers['cache-control'],
      'max-age=31536000, immutable'
    )
    t.equal((await visit(sluice, 'app.test', { path: '/sw.js' })).headers['cache-control'], 'no-store')
  })

  await t.test('compressed files beside the plain ones', async (t) => {
    const table: [path: string, accepted: string, body: string, coding: string | undefined][] = [
      ['/app.js', 'gzip, br', 'br script', 'br'],
      ['/app.js', 'gzip', 'gz script', 'gzip'],
      ['/app.js', 'gzip;q=1, br;q=0.5', 'gz script', 'gzip'],
      ['/app.js', 'br;q=0, gzip;q=0', 'plain script', undefined],
      ['/app.js', '*', 'br script', 'br'],
      ['/app.js', 'zstd', 'plain script', undefined],
      ['/app.js', '', 'plain script', undefined],
      ['/style.css', 'gzip, br, zstd', 'zst css', 'zstd']
    ]
    for (const [path, accepted, body, coding] of table) {
      for (const round of ['looked at', 'from memory']) {
        const file = await visit(sluice, 'app.test', { path, headers: { 'accept-encoding': accepted } })
        t.equal(file.body, body, `${path} ${accepted} ${round}`)
        t.equal(file.headers['content-encoding'], coding)
        t.equal(file.headers.vary, 'Accept-Encoding')
        t.match(file.headers['content-type'], path === '/app.js' ? /javascript/ : /css/)
      }
    }
    const coded = await visit(sluice, 'app.test', { path: '/app.js', headers: { 'accept-encoding': 'br' } })
    const plain = await visit(sluice, 'app.test', { path: '/app.js' })
    t.not(coded.headers.etag, plain.headers.etag)
    const asked = { 'accept-encoding': 'br', 'if-none-match': String(coded.headers.etag) }
    const same = await visit(sluice, 'app.test', { path: '/app.js', headers: asked })
    t.equal(same.status, 304)
    t.equal(same.headers.vary, 'Accept-Encoding')
    const range = { 'accept-encoding': 'br', range: 'bytes=0-1' }
    const part = await visit(sluice, 'app.test', { path: '/app.js', headers: range })
    t.equal(part.body, 'br')
    t.equal(part.headers['content-range'], 'bytes 0-1/9')
    t.equal(
      (await visit(sluice, 'app.test', { path: '/sw.js', headers: { 'accept-encoding': 'br' } })).headers.vary,
      undefined
    )
  })

  await t.test('a list of files', async (t) => {
    const list = await visit(sluice, 'named.test', { path: '/assets/' })
    t.equal(list.status, 200)
    t.match(list.headers['content-type'], /html/)
    t.match(list.body, '<a href="./logo.svg">logo.svg</a>')
    t.match(list.body, '<a href="../">Up</a>')
    t.equal((await visit(sluice, 'short.test', { path: '/assets/' })).status, 404, 'only where it is asked for')
    await place(join(sluice.folder, 'public/sub/<i>&"/x'), '1')
    await place(join(sluice.folder, 'public/sub/.hidden'), '1')
    await place(join(sluice.folder, 'public/sub/out'), '->/etc/passwd')
    const odd = await visit(sluice, 'named.test', { path: '/sub/' })
    t.match(odd.body, '<a href="./%3Ci%3E%26%22/">&lt;i&gt;&amp;&quot;/</a>')
    t.notMatch(odd.body, '.hidden')
    t.notMatch(odd.body, 'out')
    t.match(odd.headers['content-security-policy'], "default-src 'none'")
  })

  await t.test('log and metrics name the folder', async (t) => {
    const path = { folder: join(sluice.folder, 'public') }
    const line = await sluice.line(({ path }) => path === '/assets/logo.svg')
    t.match(JSON.stringify(line), `file://${path.folder}`)
  })
})

t.test('what is wrong in a site file has its place', async (t) => {
  const refused = async (site: string) => {
    const folder = await folderOf(t, { 'site.yaml': `sites:\n  a.test:\n    routes:\n      /: ${site}\n` })
    try {
      await startSluice(t, { options: { SITE_FILE: join(folder, 'site.yaml') } })
    } catch (error) {
      return JSON.stringify(error)
    }
    return 'serves'
  }
  for (const [site, why] of [
    ['{ files: ./public, cache: { "*.js": forever } }', /cache/],
    ['{ files: ./public, precompressed: [lzma] }', /zst, br or gz/],
    ['{ files: ./public, backend: http://127.0.0.1:1 }', /does not go with backend/],
    ['{ fallback: /index.html }', /exactly one of|files alone/],
    ['{ files: ./public, balance: hash }', /has no \\"balance\\"|balance/],
    ['{ files: ./public, index: [a/b.html] }', /index/]
  ] as const)
    t.match(await refused(site), why, site)
})

t.test('through the API a folder must lie in those of the operator', async (t) => {
  const folder = await folderOf(t, {
    'open/index.html': 'open',
    'open/in/index.html': 'in',
    'shut/index.html': 'shut',
    'open/way': '->../shut'
  })
  const sluice = await startSluice(t, { options: { FILE_FOLDERS: join(folder, 'open') } })
  const ask = account(sluice)
  for (const path of ['shut', 'open/../shut', 'open/way', '.', 'opened']) {
    const answer = await ask('/backends/file', { method: 'POST', body: { folder: `${folder}/${path}` } })
    t.equal(answer.status, 400, path)
    t.match(answer.text, 'folder', path)
  }
  t.equal((await ask('/backends/file', { method: 'POST', body: { folder: 'open' } })).status, 400)
  const { id } = await create(sluice, '/backends/file', { folder: join(folder, 'open/in') })
  await site(sluice, 'api.test', { backend: { backend_id: id } })
  t.equal((await visit(sluice, 'api.test')).body, 'in')
  const listed = await ask('/backends/file')
  t.match(listed.text, '/open/in')
  const tcp = await ask('/edges/tcp', {
    method: 'POST',
    body: { hostports: ['127.0.0.1:0'], backend: { backend_id: id } }
  })
  t.equal(tcp.status, 400, 'files say nothing on plain bytes')

  const text = (path: string) => `sites:\n  applied.test: ${path}\n`
  const apply = (path: string) => ask('/site', { method: 'PUT', body: { file: 'site.yaml', text: text(path) } })
  t.match((await apply('./public')).text, 'absolute path')
  t.match((await apply(join(folder, 'shut'))).text, 'file_folders')
  t.equal((await apply(join(folder, 'open'))).status, 200)
  t.equal((await visit(sluice, 'applied.test')).body, 'open')
})

t.test('policies, compression and failover treat files like any upstream', async (t) => {
  const text = `sites:
  policy.test:
    files: ./public
    policy:
      on_http_request:
        - expressions: ["req.url.path.startsWith('/old/')"]
          actions: [{ type: url-rewrite, config: { from: '/old/(.*)', to: '/$1' } }]
        - expressions: ["req.url.path == '/no'"]
          actions: [{ type: deny }]
      on_http_response:
        - actions: [{ type: add-headers, config: { headers: { x-from: '\${res.status_code}' } } }]
  packed.test:
    files: ./public
    compression: true
  spare.test:
    backend: { balance: failover, backends: [gone, pages] }
  gone.test: ./nowhere
backends:
  gone: { files: ./nowhere }
  pages: { files: ./public }
`
  const sluice = await withSite(t, text)
  const rewritten = await visit(sluice, 'policy.test', { path: '/old/app.js' })
  t.equal(rewritten.body, 'plain script')
  t.equal(rewritten.headers['x-from'], '200')
  t.equal((await visit(sluice, 'policy.test', { path: '/no' })).status, 403)
  t.equal((await visit(sluice, 'policy.test', { path: '/old/assets' })).headers.location, './assets/')
  await place(join(sluice.folder, 'public/long.txt'), 'long '.repeat(40_000))
  const packed = await visit(sluice, 'packed.test', { path: '/long.txt', headers: { 'accept-encoding': 'gzip' } })
  t.equal(packed.headers['content-encoding'], 'gzip')
  t.match(packed.headers.etag, /^W\//)
  const gone = await visit(sluice, 'gone.test')
  t.equal(gone.status, 502)
  t.ok(gone.headers['sluice-error-code'])
  t.match(await sluice.line(({ msg }) => msg === 'upstream failed'), { detail: /nowhere|ENOENT/ })
  t.equal((await visit(sluice, 'spare.test')).body, 'app')
})

t.test('nothing of the product is sent, whatever folder holds it', async (t) => {
  const folder = await folderOf(t, {
    'index.html': 'home',
    'policy.yaml': 'on_http_request: []\n',
    'sites/all.yaml': 'sites: {}\n'
  })
  const options = {
    FILES: folder,
    DATA: ':memory:',
    POLICY: join(folder, 'policy.yaml'),
    SITE_FILE: join(folder, 'sites/all.yaml')
  }
  const sluice = await startSluice(t, { options })
  t.equal((await visit(sluice, 'a.test')).body, 'home')
  for (const path of ['/policy.yaml', '/sites/all.yaml'])
    t.equal((await visit(sluice, 'a.test', { path })).status, 404, path)
})

t.test('an explanation shows the answer of the file', async (t) => {
  const sluice = await withSite(t, 'sites:\n  a.test: ./public\n')
  const answer = await account(sluice)('/explain', {
    method: 'POST',
    body: { method: 'GET', url: 'http://a.test/app.js', headers: {} }
  })
  t.equal(answer.status, 200, answer.text)
  t.match(answer.text, '"form":"files"')
  t.match(answer.text, 'application/javascript')
})

t.test('error pages of a site and of a route take the place of those of files', async (t) => {
  const text = `sites:
  a.test:
    files: ./public
    error_pages: { 404: { body: "<!doctype html><h1>No \${req.url.path}</h1>" }, 4xx: { body: "Error \${res.status_code}" } }
  b.test:
    error_pages: { 404: { body: of the site } }
    routes:
      /: ./public
      /assets/: { files: ./public, error_pages: { 404: { body: '{"missing":true}' } } }
      /app/: { files: ./public, fallback: /index.html }
`
  const sluice = await withSite(t, text)
  const missing = await visit(sluice, 'a.test', { path: '/a&b' })
  t.match(missing, { status: 404, headers: { 'content-type': 'text/html; charset=utf-8' } })
  t.equal(missing.body, '<!doctype html><h1>No /a&amp;b</h1>')
  t.equal(missing.headers['content-length'], String(missing.body.length))
  const head = await visit(sluice, 'a.test', { path: '/a&b', method: 'HEAD' })
  t.match(head, { status: 404, body: '' })
  const range = await visit(sluice, 'a.test', { path: '/app.js', headers: { range: 'bytes=99-' } })
  t.match(range, { status: 416, headers: { 'content-range': 'bytes */12' }, body: 'Error 416' })
  const method = await visit(sluice, 'a.test', { path: '/', method: 'POST' })
  t.match(method, { status: 405, headers: { allow: 'GET, HEAD, OPTIONS' }, body: 'Error 405' })
  t.equal((await visit(sluice, 'a.test')).body, 'app', 'files themselves stay')
  t.equal((await visit(sluice, 'b.test', { path: '/none' })).body, 'of the site')
  t.equal((await visit(sluice, 'b.test', { path: '/assets/none' })).body, '{"missing":true}')
  t.equal((await visit(sluice, 'b.test', { path: '/app/none' })).body, 'app', 'a fallback is no error')
})
