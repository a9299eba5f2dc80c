import t from 'tap'
import { Browser, overNetwork } from '../../features/login/browser.js'
import { FakeProvider } from '../../features/login/fake-provider.js'
import { application, stage } from '../../features/login/module-stage.js'
import { create } from '../../helpers/account.js'
import { until } from '../../helpers/until.js'
import { boxFaults } from './boxes.js'
import { dashboard, missing, violations } from './browser.js'

const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'

t.test('users and their sessions are listed, and ended on the page', { skip: missing, timeout: 180_000 }, async (t) => {
  const provider = await new FakeProvider().start(t)
  const { sluice, api, put, site } = await stage(t, '')
  await put('oidc', { ...application, issuer: provider.url, assume_email_verified: true })
  const { page, go, picture } = await dashboard(t, { sluice })

  await go('users')
  await page.getByRole('heading', { name: 'Nobody has logged in' }).waitFor()
  t.same(
    (await api('POST', '/policies/check', { text: await page.locator('.empty pre').textContent() })).json.problems,
    []
  )

  const visitors = [1, 2, 3].map(
    () =>
      new Browser((method, url, headers, body) => overNetwork(method, url, { ...headers, 'user-agent': FIREFOX }, body))
  )
  for (const [at, visitor] of visitors.entries()) {
    if (at === 2) provider.user = { sub: 'u2', name: 'Bob', email: 'bob@example.com', email_verified: true }
    t.equal((await visitor.visit(`${site}/`)).status, 200)
  }
  const statuses = async () => await Promise.all(visitors.map(async (one) => (await one.once(`${site}/`)).status))
  await until(async () => (await api('GET', '/app/sessions')).json.application_sessions.length === 3)

  await page.reload()
  const rows = page.getByRole('region', { name: 'Users', exact: true }).locator('tbody tr')
  const ann = rows.filter({ hasText: 'ann@example.com' })
  await ann.filter({ hasText: 'OpenID Connect' }).getByText('2', { exact: true }).waitFor()
  await rows.filter({ hasText: 'bob@example.com' }).getByText('1', { exact: true }).waitFor()
  t.same(await violations(page), [])
  t.same(await boxFaults(page), [])
  await picture('users')

  const link = ann.getByRole('link', { name: 'ann@example.com' })
  await link.focus()
  await page.keyboard.press('Enter')
  const sessions = page.getByRole('region', { name: 'Sessions', exact: true }).locator('tbody tr')
  await sessions.nth(1).waitFor()
  t.match(await sessions.first().textContent(), /Firefox 140\.0 on Linux/)
  t.match(await sessions.first().textContent(), site)
  t.same(await violations(page), [])
  for (const width of [1280, 1060, 360]) {
    await page.setViewportSize({ width, height: 800 })
    t.same(await boxFaults(page), [], `${width} px`)
    await picture(`user-${width}`)
  }
  await page.setViewportSize({ width: 1280, height: 800 })

  await sessions.first().getByRole('button', { name: 'End session' }).press('Enter')
  const ending = page.getByRole('dialog', { name: 'End session' })
  await ending.getByText(`Logs this browser out of ${site}`).waitFor()
  await ending.getByRole('button', { name: 'End session', exact: true }).press('Enter')
  await sessions.nth(1).waitFor({ state: 'detached' })
  t.same((await statuses()).sort(), [200, 200, 302])

  await page.getByRole('button', { name: 'End all sessions' }).click()
  const all = page.getByRole('dialog', { name: 'End all sessions' })
  await all.getByText('Logs ann@example.com out everywhere').waitFor()
  await all.getByRole('button', { name: 'End all sessions', exact: true }).click()
  await page.getByRole('heading', { name: 'Users', level: 1 }).waitFor()
  await ann.waitFor({ state: 'detached' })
  t.same(await statuses(), [302, 302, 200], 'Bob stays logged in')

  const { id: owner } = await create(sluice, '/service_users', { name: 'reader' })
  const { token } = await create(sluice, '/api_keys', { owner_id: owner })
  const member = await dashboard(t, { sluice, key: token })
  await member.go('users')
  const refused = member.page.getByRole('button', { name: 'End all sessions' })
  t.equal(await refused.getAttribute('aria-disabled'), 'true')
  await refused.press('Enter')
  await member.page.getByText('Only an administrator may do this.').waitFor()
  t.same(await statuses(), [302, 302, 200])
})
