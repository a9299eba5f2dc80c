import t from 'tap'
import { create } from '../../helpers/account.js'
import { dashboard, missing } from './browser.js'

const BROWSER = { skip: missing, timeout: 90_000 }
const POLICY = (status: number) => `on_http_request:
  - actions:
      - type: custom-response
        config:
          status_code: ${status}
          body: closed
`

t.test('a write is seen, compared and taken back', BROWSER, async (t) => {
  const { page, go, call, sluice, picture } = await dashboard(t)
  const edge = await create(sluice, '/edges/https', { hostports: ['shop.localhost:443'] })
  const path = `/edges/https/${edge.id}/routes`
  const route = await create(sluice, path, { match: '/', traffic_policy: { value: POLICY(503) } })
  const changed = await call(`${path}/${route.id}`, {
    method: 'PATCH',
    body: { description: 'the shop', traffic_policy: { value: POLICY(404) } }
  })
  t.equal(changed.status, 200)
  const { revisions } = (await call('/revisions')).json
  const latest = String(revisions[0].id)

  await go('history')
  const rows = page.getByRole('region', { name: 'Revisions' }).locator('tbody tr')
  t.match(await rows.first().textContent(), /1 updated/)
  t.match(await rows.nth(1).textContent(), /1 created/)
  const why = rows.first().locator('td[data-label="Why"]')
  t.equal(await why.textContent(), '')
  await page.setViewportSize({ width: 400, height: 800 })
  t.equal(await why.isVisible(), false, 'a card leaves an empty cell out')
  await page.setViewportSize({ width: 1280, height: 800 })
  await rows.first().getByRole('link', { name: latest }).click()
  await page.getByRole('heading', { name: `Revision ${latest}` }).waitFor()
  const difference = page.locator('.difference')
  await difference.waitFor()
  t.match(await difference.textContent(), `~ https_edge_route shop.localhost/ ${route.id} "the shop"`)
  t.match(await difference.textContent(), /description: .*→ "the shop"/)
  t.match(await difference.locator('.removed').allTextContents(), [/status_code: 503/])
  t.match(await difference.locator('.added').allTextContents(), [/status_code: 404/])
  await picture('history-difference')

  await page.getByRole('button', { name: 'Check' }).click()
  await page.getByText(`It can be reverted. POST /revisions/${latest}/revert?dry_run=true`).waitFor()
  t.equal((await call('/revisions')).json.revisions[0].id, Number(latest), 'a check writes nothing')
  await page.getByRole('button', { name: 'Revert' }).click()
  const dialog = page.getByRole('dialog', { name: 'Revert' })
  await dialog.getByRole('button', { name: 'Revert', exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
  await page.getByText(`POST /revisions/${latest}/revert`, { exact: false }).first().waitFor()
  t.match((await call(`${path}/${route.id}`)).json.traffic_policy.value, /status_code: 503/)
  await go('history')
  await rows.filter({ hasText: `takes back ${latest}` }).waitFor()

  await page.getByRole('link', { name: latest, exact: true }).click()
  await page.getByRole('button', { name: 'Revert' }).click()
  await dialog.getByRole('button', { name: 'Revert', exact: true }).click()
  t.match(await page.getByRole('alert').first().textContent(), /ERR_SLUICE_/, 'what was taken back cannot be once more')
})

t.test('a member without rights reads, and is told what only administrators may do', BROWSER, async (t) => {
  const first = await dashboard(t)
  const { sluice, call } = first
  await create(sluice, '/vaults', { name: 'keys' })
  const { id } = (await call('/revisions')).json.revisions[0]
  const bot = await create(sluice, '/bot_users', { name: 'reader' })
  const { token } = await create(sluice, '/api_keys', { owner_id: bot.id })
  const { page, go, picture } = await dashboard(t, { sluice, key: token })
  await go(`history/${id}`)
  const revert = page.getByRole('button', { name: 'Revert' })
  // Before it knows what was changed, the page says that it loads.
  await revert.and(page.locator(':not([title^="Loading"])')).waitFor()
  t.equal(await revert.getAttribute('aria-disabled'), 'true')
  t.equal(await revert.getAttribute('title'), 'Only an administrator may do this.')
  await revert.focus()
  await page.keyboard.press('Enter')
  await page.getByRole('status').filter({ hasText: 'Only an administrator' }).last().waitFor()
  t.equal(await page.getByRole('dialog').count(), 0)
  await picture('member')
  for (const place of ['traffic', 'routes', 'policies', 'limits', 'agents', 'certificates', 'events', 'processes']) {
    await go(place)
    t.ok((await page.locator('main').textContent())?.trim(), `${place} says something`)
  }
})

t.test('events say how to begin where there are none', BROWSER, async (t) => {
  const { page, go } = await dashboard(t)
  await go('events')
  const empty = page.locator('main .empty').first()
  t.match(await empty.textContent(), /event_destinations/)
})
