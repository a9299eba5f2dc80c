import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { freePort } from '../../capabilities/site-file/site-kit.js'
import { visit } from '../../helpers/account.js'
import { dashboard, missing, paste, violations } from './browser.js'

const API_POLICY = `on_http_request:
  - name: no scripts
    expressions: ["req.url.path.endsWith('.php')"]
    actions: [{ type: deny }]
`
/** Line 5 holds the policy of the site, line 12 that of a route. */
const SITE = (port: number, upstream: number) => `listeners: ["127.0.0.1:${port}"]
sites:
  shop.localhost:
    policy:
      on_http_request:
        - name: most are refused
          expressions: ["!req.url.path.startsWith('/api')"]
          actions: [{ type: deny }]
    routes:
      /: web
      /api/: { backend: web, policy: api.yaml }
      /status: web
backends:
  web: { servers: ["http://127.0.0.1:${upstream}"] }
`
const tab = (page: Page, name: string) => page.getByRole('tab', { name }).click()

t.test(
  "a site's policy is listed, tried and shadowed, and changes in its file alone",
  {
    skip: missing,
    timeout: 90_000
  },
  async (t) => {
    const upstream = createServer((_request, response) => response.end('hello')).listen(0, '127.0.0.1')
    await new Promise((listening) => upstream.once('listening', listening))
    t.teardown(async () => {
      upstream.close()
      upstream.closeAllConnections()
    })
    const folder = t.testdir({ 'api.yaml': API_POLICY })
    const file = join(folder, 'sites.yaml')
    const port = await freePort()
    await writeFile(file, SITE(port, (upstream.address() as AddressInfo).port))
    const shown = await dashboard(t, { options: { SITE_FILE: file } })
    const { page, go, call, picture } = shown
    const sluice = { ...shown.sluice, port }
    t.equal((await visit(sluice, 'shop.localhost')).status, 403, 'it refuses requests')

    const [edge] = (await call('/edges/https')).json.https_edges
    t.match(
      edge.routes.map(({ declared }: { declared: object }) => declared),
      [
        { file: 'sites.yaml', line: 10 },
        { file: 'sites.yaml', line: 11 },
        { file: 'sites.yaml', line: 12 }
      ],
      'a nested route says where it stands'
    )
    const { json: route } = await call(`/edges/https/${edge.id}/routes/${edge.routes[0].id}`)
    t.same(route.declared, edge.routes[0].declared)

    await go('policies')
    const rows = page.getByRole('region', { name: 'Policies', exact: true }).locator('tbody tr')
    t.match(await rows.allTextContents(), [
      /shop\.localhost:443\s*4 lines.*sites\.yaml:5.*read-only/s,
      /shop\.localhost:443 \/\s*none.*sites\.yaml:10.*read-only/s,
      /shop\.localhost:443 \/api\s*4 lines.*api\.yaml.*read-only/s,
      /shop\.localhost:443 \/status\s*none.*sites\.yaml:12.*read-only/s
    ])
    await picture('policies-of-a-site')
    await rows.first().getByRole('link').click()
    const editor = page.getByRole('textbox', { name: 'Policy', exact: true })
    await editor.getByText('most are refused').waitFor()
    t.same(await violations(page), [])
    t.match(await page.locator('.note').textContent(), /not applied\. .*sites\.yaml:5 holds it/)
    t.equal(await page.getByRole('tab', { name: 'Apply' }).count(), 0, 'nothing is offered that the API refuses')

    await tab(page, 'Try')
    await page.getByRole('button', { name: 'Try', exact: true }).click()
    await page.locator('.explanation').getByText('POLICY_DENIED').first().waitFor()
    await paste(editor, API_POLICY)
    await page.getByRole('button', { name: 'Try', exact: true }).click()
    await page.locator('.explanation').getByText('forwarded').first().waitFor()

    await tab(page, 'Shadow')
    await page.getByLabel('Work for one request').fill('50ms')
    await page.getByRole('button', { name: 'Begin', exact: true }).click()
    await page.getByText('No request has come yet.').waitFor()
    t.equal((await visit(sluice, 'shop.localhost')).status, 403)
    await page.getByText('1 decided otherwise').waitFor()

    await tab(page, 'Edit the file')
    t.match(await page.getByRole('tabpanel').textContent(), /sites\.yaml:5 holds it.*no scripts/s)
    await picture('policies-edit-the-file')

    await go('routes')
    await page.getByRole('link', { name: 'traffic_policy' }).first().click()
    await editor.waitFor()
    t.match(page.url(), new RegExp(`#/policies/${edge.id}$`), 'the map leads to the policy that runs')
  }
)

t.test('the policy that the options name is listed too', { skip: missing, timeout: 90_000 }, async (t) => {
  const { page, go } = await dashboard(t, { upstream: { port: 1 }, policy: API_POLICY })
  await go('policies')
  const row = page.getByRole('region', { name: 'Policies', exact: true }).locator('tbody tr')
  t.match(await row.textContent(), /Every other host\s*4 lines.*policy\.yaml.*read-only/s)
  await row.getByRole('link').click()
  await page.getByRole('textbox', { name: 'Policy', exact: true }).getByText('no scripts').waitFor()
})
