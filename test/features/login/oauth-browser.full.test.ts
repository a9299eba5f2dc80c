import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import t from 'tap'
import { account, create, site, visit } from '../../helpers/account.js'
import { startSluice } from '../../helpers/sluice.js'
import { CLIENT } from './fake-provider.js'
import { RealProvider } from './real-provider.js'

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find((path) => existsSync(path))
const missing = CHROMIUM === undefined ? "needs Debian's chromium" : false
if (missing !== false && process.env.SLUICE_TEST_LONG !== undefined) t.fail(missing)

t.test('a browser logs in, is refused, logs out', { skip: missing, timeout: 90_000 }, async (t) => {
  const provider = await new RealProvider().start(t)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-login-'))
  const file = join(folder, 'providers.yaml')
  await writeFile(file, `gitlab: {issuer: '${provider.url}'}`)
  const cookies: (string | undefined)[] = []
  const upstream = createServer((request, response) => {
    cookies.push(request.headers.cookie)
    response.setHeader('content-type', 'text/html').setHeader('set-cookie', 'own=1; Path=/')
    response.end(
      '<h1>Hello</h1><script>fetch("/app/data", {method: "POST"}).then((r) => { document.title = "data " + r.status })</script>'
    )
  }).listen(0, '127.0.0.1')
  await new Promise((listening) => upstream.once('listening', listening))
  const sluice = await startSluice(t, { options: { OUTBOUND_ALLOW_PRIVATE: 'on', LOGIN_PROVIDERS: file } })
  const backend = await create(sluice, '/backends/static', {
    address: `127.0.0.1:${(upstream.address() as AddressInfo).port}`
  })
  const login = {
    client_id: CLIENT.id,
    client_secret: CLIENT.secret,
    email_domains: ['example.com']
  }
  const { route } = await site(sluice, 'app.localhost', {
    match: '/app',
    backend: { backend_id: backend.id },
    oauth: { provider: { gitlab: login } }
  })
  const origin = `http://app.localhost:${sluice.port}`
  provider.register(`${origin}/.sluice/callback`)

  const browser: Browser = await chromium.launch({
    ...(CHROMIUM === undefined ? {} : { executablePath: CHROMIUM }),
    args: ['--no-sandbox', '--disable-gpu']
  })
  t.teardown(async () => {
    await browser.close()
    upstream.close()
    upstream.closeAllConnections()
    await rm(folder, { recursive: true, force: true })
  })
  const enter = async (user: string) => {
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(`${origin}/app/welcome?from=here`)
    t.ok(page.url().startsWith(`${provider.url}/interaction/`), page.url())
    await page.fill('input[name=login]', user)
    await page.fill('input[name=password]', 'any')
    await page.click('button[type=submit]')
    await page.click('button[type=submit]')
    return { context, page }
  }

  const { context, page } = await enter('ann')
  await page.waitForURL(`${origin}/app/welcome?from=here`)
  t.equal(await page.textContent('h1'), 'Hello')
  await page.waitForFunction('document.title !== ""')
  t.equal(await page.title(), 'data 200', "the page's own requests carry the session")
  const kept = (await context.cookies(origin)).filter(({ name }) => name.includes('session'))
  t.match(kept, [{ name: /^sluice\.session\.sl/, httpOnly: true, sameSite: 'Lax', domain: 'app.localhost', path: '/' }])
  t.equal(await page.evaluate('document.cookie'), 'own=1', 'no script sees the session')
  t.ok(cookies.every((cookie) => cookie === undefined || cookie === 'own=1'))

  await page.goto(`${origin}/.sluice/logout`)
  t.equal(await page.textContent('h1'), 'You are logged out')
  t.same(
    (await context.cookies(origin)).map(({ name }) => name),
    ['own']
  )
  await page.click('a')
  await page.waitForURL(`${origin}/app`)
  t.equal(await page.textContent('h1'), 'Hello', 'the link of that page logs in again')

  const refused = await enter('bob@elsewhere.test')
  await refused.page.waitForSelector('h1:has-text("No access")')
  t.same(await refused.context.cookies(origin), [], 'no session was made')
  t.notOk((await visit(sluice, 'app.localhost', { path: '/app' })).body.includes('Hello'))
  t.equal((await account(sluice)(route, {})).status, 200)
})
