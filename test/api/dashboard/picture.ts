import { mkdir } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { packageRoot } from '../../../src/lib/files.js'
import { create, site, visit } from '../../helpers/account.js'
import { startSluice } from '../../helpers/sluice.js'
import { openBrowser, signIn } from './browser.js'

/** Makes the picture of the README: `npm run picture`. A shop with a limit, and a client that has just met it. */
const FILE = join(packageRoot(), 'docs', 'images', 'dashboard.png')
const POLICY = `on_http_request:
  - name: no scripts
    expressions: ["req.url.path.startsWith('/admin')"]
    actions: [{ type: deny, config: { status_code: 403 } }]
  - name: a few a minute
    actions:
      - type: rate-limit
        config:
          name: few
          algorithm: sliding_window
          capacity: 44
          rate: 60s
          bucket_key: [conn.client_ip]
`
const PATHS = ['/', '/cart', '/images/shoe.png', '/search?q=shoe', '/admin/users', '/cart', '/products/42']
/** Seconds of traffic that the charts show. */
const SECONDS = 15

const ends: (() => Promise<void>)[] = []
const life = { teardown: (end: () => Promise<void>) => void ends.unshift(end) }
try {
  const upstream = createServer((request, response) => {
    response.statusCode = request.url === '/products/42' ? 404 : 200
    setTimeout(() => response.end('hello'), Math.random() * 20)
  }).listen(0, '127.0.0.1')
  await new Promise((listening) => upstream.once('listening', listening))
  life.teardown(async () => void upstream.close())
  const sluice = await startSluice(life)
  const address = `127.0.0.1:${(upstream.address() as AddressInfo).port}`
  const backend = await create(sluice, '/backends/static', { address })
  await site(sluice, 'shop.localhost', {
    backend: { backend_id: backend.id },
    traffic_policy: { value: POLICY }
  })
  const browser = await openBrowser()
  life.teardown(() => browser.close())
  const context = await browser.newContext({ viewport: { width: 1280, height: 1000 }, colorScheme: 'light' })
  const page = await context.newPage()
  await page.goto(`http://127.0.0.1:${sluice.apiPort}/`)
  await signIn(page, sluice.apiKey)
  await page.getByRole('heading', { name: 'Traffic', level: 1 }).waitFor()
  const from = Date.now()
  for (let sent = 0; Date.now() - from < SECONDS * 1_000; sent++) {
    await visit(sluice, 'shop.localhost', { path: PATHS[sent % PATHS.length] as string })
    await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 300))
  }
  await mkdir(dirname(FILE), { recursive: true })
  await page.screenshot({ path: FILE })
} finally {
  for (const end of ends) await end()
}
