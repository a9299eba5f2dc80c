import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { account, create, site, visit } from '../../helpers/account.js'
import { ManualClock } from '../../helpers/clock.js'
import { startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { dashboard, missing, violations } from './browser.js'

const MINUTE = 60_000
const POLICY = `on_http_request:
  - actions:
      - type: rate-limit
        config: { name: few, algorithm: sliding_window, capacity: 4, rate: 1h, bucket_key: [conn.client_ip] }
`

t.test(
  'the start page shows what is wrong, traffic of now and before, and who causes it',
  {
    skip: missing,
    timeout: 120_000
  },
  async (t) => {
    const upstream = createServer((_request, response) => response.end('hello')).listen(0, '127.0.0.1')
    await new Promise((listening) => upstream.once('listening', listening))
    t.teardown(async () => {
      upstream.close()
      upstream.closeAllConnections()
    })
    const clock = new ManualClock(Date.now())
    const sluice = await startSluice(t, { clock, options: { RECORDER_WHERE: 'true', OUTBOUND_ALLOW_PRIVATE: 'true' } })
    const ask = account(sluice)
    const { port } = upstream.address() as AddressInfo
    const backend = await create(sluice, '/backends/static', { address: `127.0.0.1:${port}` })
    await site(sluice, 'shop.localhost', { backend: { backend_id: backend.id }, traffic_policy: { value: POLICY } })
    for (let sent = 0; sent < 10; sent++) await visit(sluice, 'shop.localhost')
    const day = async () => (await ask('/traffic/day?step=1')).json
    for (let minutes = 1; minutes <= 21; minutes++) {
      clock.advance(MINUTE)
      await until(async () => (await day()).steps.length === minutes)
    }
    t.match((await day()).steps[0], { requests: 10, refused: 6, statuses: { '2xx': 4, '4xx': 6 } })

    const { page, go, picture } = await dashboard(t, { sluice })
    await go('overview')
    t.equal(await page.title(), 'Overview · Sluice', 'all is well')
    t.same(await violations(page), [])
    const table = (name: string) => page.getByRole('region', { name, exact: true })
    t.match(await table('Traffic of five minutes, now and before').textContent(), /Requests a minute\s*0\s*–\s*–/)
    await page.getByText('10 in all').waitFor()
    t.equal((await page.locator('.heat rect').count()) > 0, true, 'durations are a heat map')
    t.match(await table('Clients').textContent(), /127\.0\.0\.1\s*10/)
    t.match(await table('Slowest routes').textContent(), /shop\.localhost\/\s*10/)
    await picture('overview')

    const dead = await create(sluice, '/backends/static', { address: '127.0.0.1:1', health: { path: '/' } })
    await site(sluice, 'dead.localhost', { backend: { backend_id: dead.id } })
    await until(async () => {
      clock.advance(MINUTE)
      return JSON.stringify((await ask('/map')).json).includes('"status":"down"')
    })
    await page.reload()
    await page.getByText('1 down').waitFor()
    await page.waitForFunction("document.title.startsWith('1 server down · ')")
    await go('history')
    t.match(await page.title(), /^1 server down · History/, 'the tab shows it on every page')

    await go('processes')
    const { version } = (await ask('/processes')).json.processes[0]
    t.match(
      await table('Processes').locator('tbody tr').textContent(),
      new RegExp(`${version.replaceAll('.', '\\.')}.*(?:s|min).*MiB.*(?:µs|ms).*\\d`, 's')
    )
  }
)
