import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { create, site, visit } from '../../helpers/account.js'
import { dashboard, missing } from './browser.js'

t.test(
  'the map shows where requests go and what became of them, and leads to them',
  { skip: missing, timeout: 90_000 },
  async (t) => {
    const upstream = createServer((request, response) => {
      response.statusCode = request.url === '/broken' ? 500 : 200
      response.end('hello')
    }).listen(0, '127.0.0.1')
    await new Promise((listening) => upstream.once('listening', listening))
    t.teardown(async () => {
      upstream.close()
      upstream.closeAllConnections()
    })
    const { page, sluice, go, picture } = await dashboard(t)
    const address = `127.0.0.1:${(upstream.address() as AddressInfo).port}`
    const backend = await create(sluice, '/backends/static', { address })
    const { route } = await site(sluice, 'shop.localhost', {
      backend: { backend_id: backend.id },
      traffic_policy: {
        value: 'on_http_request: [{expressions: ["req.url.path == \'/no\'"], actions: [{type: deny}]}]'
      }
    })
    await site(sluice, 'other.localhost', { match: '/only' })
    for (const path of ['/', '/', '/broken', '/no']) await visit(sluice, 'shop.localhost', { path })
    await go('routes')
    const shop = page.getByRole('region', { name: 'shop.localhost:443' })
    await shop.getByText('1 failed (25 %)').first().waitFor()
    t.match(await shop.textContent(), /4 requests a minute.*1 refused \(25 %\)/s)
    t.match(await shop.textContent(), new RegExp(`http://${address}.*unchecked`, 's'))
    await picture('routes')
    await page.getByLabel('Find').fill('other')
    await shop.waitFor({ state: 'detached' })
    await page.getByRole('region', { name: 'other.localhost:443' }).getByText('no backend').waitFor()
    await page.getByLabel('Find').fill('')
    await shop.getByRole('link', { name: 'traffic_policy' }).click()
    await page.getByRole('heading', { name: /Policy of shop\.localhost/ }).waitFor()
    t.ok(page.url().endsWith(`#/policies/${route.split('/').at(-1)}`))
    await go('routes')
    await shop.getByRole('link', { name: '4 requests a minute' }).first().click()
    await page.getByRole('heading', { name: 'Traffic', level: 1 }).waitFor()
    t.match(page.url(), /#\/traffic\?site=shop\.localhost$/)
  }
)

t.test('charts show traffic as it comes, in words too', { skip: missing, timeout: 90_000 }, async (t) => {
  const policy =
    'on_http_request: [{expressions: ["req.url.path == \'/no\'"], actions: [{type: deny}]}, {actions: [{type: custom-response, config: {status_code: 200}}]}]'
  const { page, sluice, go, picture } = await dashboard(t, { policy, upstream: { port: 9 } })
  await go('traffic')
  const charts = page.getByRole('region', { name: 'Traffic of the last minutes' })
  await charts.getByText('0.0 in the last ten seconds').waitFor()
  for (const path of ['/', '/no', '/']) await visit(sluice, 'a.localhost', { path })
  await charts.getByText('1 refused, 0 failed in the last ten seconds').waitFor()
  await charts.getByText(/99 % within [\d.]+ (?:ms|µs)/).waitFor()
  t.equal(await charts.locator('canvas').count(), 3)
  await picture('charts')
})
