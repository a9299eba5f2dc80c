import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { writeRules } from '../../features/waf/crs-like.js'
import { visit } from '../../helpers/account.js'
import { boxFaults } from './boxes.js'
import { dashboard, missing } from './browser.js'

const BROWSER = { skip: missing, timeout: 90_000 }
const POLICY =
  'on_http_request: [{ name: firewall, actions: [{ type: owasp-crs-request, config: { enforce: false } }] }]\n'

async function upstream(test: { teardown(end: () => void): void }) {
  const server = createServer((_, response) => response.end('here'))
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  test.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port }
}

t.test('matches are listed, exclusions proposed and proved, and a request shows what matched', BROWSER, async (t) => {
  const options = { WAF_RULES: writeRules(t.testdir()) }
  const { page, go, call, sluice, picture } = await dashboard(t, {
    upstream: await upstream(t),
    policy: POLICY,
    options
  })
  await go('firewall')
  await page.getByRole('heading', { name: 'No rule matches' }).waitFor()
  for (const text of ['%3Cscript%3E', '%3Cscript+src', '1'])
    t.equal((await visit(sluice, 'shop.localhost', { path: `/comments?text=${text}` })).status, 200)
  const report = page.getByRole('button', { name: 'Report' })
  await report.click()
  const row = page.getByRole('region', { name: 'Matches' }).getByRole('row').filter({ hasText: '941100' })
  await row
    .filter({ hasText: 'ARGS:text' })
    .filter({ hasText: '/comments' })
    .getByText('possible', { exact: true })
    .waitFor()
  await page.getByText('No match is a likely false positive').waitFor()
  await page.getByLabel('Trusted networks').fill('127.0.0.0/8')
  await report.click()
  const proposal = page.getByRole('region', { name: 'Exclusions for default' })
  t.equal(
    await proposal.locator('pre').textContent(),
    `exclusions:\n  - when: "req.url.path == '/comments'"\n    rules: [941100]\n    targets: ["ARGS:text"]`
  )
  await page.getByRole('button', { name: 'Prove with recorded requests' }).click()
  const proof = page.getByRole('region', { name: 'Proof' })
  t.match(await proof.getByRole('row').filter({ hasText: 'Denied' }).textContent(), /Denied\s*2\s*0/)
  t.same(await boxFaults(page), [])
  await picture('firewall-proved')
  await page.setViewportSize({ width: 360, height: 800 })
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    t.same(await boxFaults(page), [], colorScheme)
  }

  const { exchanges } = (await call('/exchanges?where=exchange.waf_score%20%3E%200')).json
  await go(`traffic/${exchanges[0].id}`)
  const matched = page.getByRole('region', { name: 'Rules of owasp-crs-request that matched' })
  await matched
    .getByRole('row')
    .filter({ hasText: 'ARGS:text' })
    .filter({ hasText: 'urlDecodeUni, lowercase' })
    .waitFor()
  t.same(await boxFaults(page), [])
})

t.test('without rules the page says what to do', BROWSER, async (t) => {
  const { page, go } = await dashboard(t, { upstream: await upstream(t) })
  await go('firewall')
  t.match(await page.locator('main .empty pre').textContent(), /^waf:\n {2}rules: /)
})
