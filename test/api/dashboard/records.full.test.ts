import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { create } from '../../helpers/account.js'
import { issue } from '../../resources/certificates.js'
import { dashboard, missing, violations } from './browser.js'

const table = (page: Page, name: string) => page.getByRole('region', { name, exact: true })

/** Fills the form that the button opens, and makes the record. */
async function make(
  t: Test,
  page: Page,
  label: string,
  values: Readonly<Record<string, string>>,
  call: string
): Promise<void> {
  await page.getByRole('button', { name: label }).click()
  const dialog = page.getByRole('dialog', { name: label })
  t.same(await violations(page), [], label)
  for (const [name, value] of Object.entries(values)) {
    const field = dialog.locator(`[name="${name}"]`)
    if ((await field.locator('option').count()) > 0) await field.selectOption({ label: value })
    else await field.fill(value)
  }
  await dialog.getByRole('button', { name: 'Create', exact: true }).click()
  await dialog.getByText(`POST ${call}`).waitFor()
}

async function close(page: Page): Promise<void> {
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
}

/** Deletes the record of a row, which is gone then. */
async function remove(page: Page, name: string, text: string): Promise<void> {
  const row = table(page, name).locator('tbody tr').filter({ hasText: text })
  await row.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('dialog', { name: 'Delete' }).getByRole('button', { name: 'Delete', exact: true }).click()
  await row.waitFor({ state: 'detached' })
}

t.test(
  'records are made and deleted on the page, and each call is shown',
  { skip: missing, timeout: 180_000 },
  async (t) => {
    const { page, go, call, sluice } = await dashboard(t)
    const all = async (path: string, member: string) => (await call(path)).json[member] as Record<string, unknown>[]

    await go('agents')
    await make(t, page, 'Create a credential', { description: 'laptop' }, '/credentials')
    await page.getByRole('dialog').getByText('It is shown this once').waitFor()
    await close(page)
    await remove(page, 'Credentials', 'laptop')
    t.same(await all('/credentials', 'credentials'), [])

    await go('events')
    await make(t, page, 'Create a destination', { url: 'https://hooks.example.com/a' }, '/event_destinations')
    await close(page)
    t.match(await all('/event_destinations', 'event_destinations'), [
      { target: { webhook: { url: 'https://hooks.example.com/a' } } }
    ])
    await remove(page, 'Destinations of events', 'hooks.example.com')

    await create(sluice, '/edges/https', { hostports: ['shop.localhost:443'] })
    await create(sluice, '/backends/static', { address: '127.0.0.1:9' })
    await go('routes')
    await make(t, page, 'Create a route', { match: '/api' }, '/edges/https/')
    await close(page)
    await table(page, 'Routes of HTTPS edges').getByText('shop.localhost:443 /api').waitFor()
    await remove(page, 'Routes of HTTPS edges', '/api')
    await make(t, page, 'Create an IP policy', { description: 'office' }, '/ip_policies')
    await close(page)
    await make(
      t,
      page,
      'Create an IP rule',
      { ip_policy_id: 'office', cidr: '203.0.113.0/24', action: 'deny' },
      '/ip_policy_rules'
    )
    await close(page)
    t.match(await all('/ip_policy_rules', 'ip_policy_rules'), [{ cidr: '203.0.113.0/24', action: 'deny' }])
    await remove(page, 'IP rules', '203.0.113.0/24')

    await go('certificates')
    const { pem, key } = await issue({ subject: 'CN=app.example.com' })
    await make(t, page, 'Create a certificate', { certificate_pem: pem, private_key_pem: key }, '/tls_certificates')
    await close(page)
    t.notOk(await page.evaluate("document.body.innerHTML.includes('PRIVATE KEY-----')"), 'the key is kept nowhere')
    await remove(page, 'Certificates', 'app.example.com')
    t.same(await all('/tls_certificates', 'tls_certificates'), [])
  }
)
