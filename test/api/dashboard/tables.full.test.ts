import type { Page } from 'playwright-core'
import t from 'tap'
import { systemClock } from '../../../src/lib/clock.js'
import { startIssuingAuthority } from '../../capabilities/certificates/issuing-authority.js'
import { receiver } from '../../capabilities/events/receiver.js'
import { startProduct } from '../../capabilities/tunnel/agents/product.js'
import { ourAgent } from '../../capabilities/tunnel/our-agent.js'
import { account, create } from '../../helpers/account.js'
import { ManualClock } from '../../helpers/clock.js'
import { startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { dashboard, missing } from './browser.js'

const BROWSER = { skip: missing, timeout: 90_000 }
const MINUTE = 60_000
const DAY = 86_400_000

const table = (page: Page, name: string) => page.getByRole('region', { name, exact: true })
const row = (page: Page, name: string, text: string | RegExp) =>
  table(page, name).getByRole('row').filter({ hasText: text })
const confirm = async (page: Page, label: string) => {
  const dialog = page.getByRole('dialog', { name: label })
  await dialog.getByRole('button', { name: label, exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
}

t.test('agents: who is connected, and commands to them', BROWSER, async (t) => {
  const { sluice, agents, credential, until: shows } = await startProduct(t)
  const { page, go, picture } = await dashboard(t, { sluice })
  await go('agents')
  t.match(await page.locator('main .empty pre').textContent(), /^sluice agent --server .* --https \S+ --forward 3000$/)
  const { token } = await credential()
  const agent = await ourAgent.start(agents, token, { endpoint: 'https', at: 'app.localhost', target: 1 })
  t.teardown(() => agent.close())
  const session = row(page, 'Sessions of agents', '127.0.0.1')
  await session.waitFor()
  await row(page, 'Tunnels', 'https://app.localhost').waitFor()
  await picture('agents-connected')

  await session.getByRole('button', { name: 'Update' }).click()
  await confirm(page, 'Update')
  t.match(await session.getByRole('alert').textContent(), /ERR_SLUICE_/, 'an agent that cannot replace itself says so')

  await session.getByRole('button', { name: 'Disconnect' }).click()
  await page.getByRole('dialog', { name: 'Disconnect' }).getByRole('button', { name: 'Cancel' }).click()
  await shows('/tunnel_sessions', ({ tunnel_sessions: all }) => (all as unknown[]).length === 1)
  await session.getByRole('button', { name: 'Disconnect' }).click()
  await confirm(page, 'Disconnect')
  await page.getByText('No agent is connected').waitFor()
  await shows('/tunnel_sessions', ({ tunnel_sessions: all }) => (all as unknown[]).length === 0)
})

t.test('certificates: how long they are valid, and those that are renewed now', BROWSER, async (t) => {
  const ca = await startIssuingAuthority(t, systemClock, 90 * DAY)
  const options = { ACME_AGREE_TERMS: 'on', ACME_DIRECTORY: ca.authority.directory }
  const { page, go, call, sluice, picture } = await dashboard(t, { options })
  await go('certificates')
  await page.getByText('No automatic certificates').waitFor()
  await page.getByText('No certificates', { exact: true }).waitFor()

  const policy = { certificate_management_policy: { authority: 'letsencrypt' } }
  const domain = await create(sluice, '/reserved_domains', { domain: 'app.example.com', ...policy })
  await create(sluice, '/agent_ingresses', { domain: 'connect.example.com', ...policy })
  const certificate = async () => (await call(`/reserved_domains/${domain.id}`)).json.certificate?.id
  const issued = () => call('/tls_certificates').then(({ json }) => json.tls_certificates.length === 2)
  await until(issued)
  const first = await certificate()
  await page.reload()
  await go('certificates')
  const shown = row(page, 'Domains with a managed certificate', 'app.example.com')
  t.match(await shown.textContent(), /valid.*(?:89|90) days/)
  t.match(await row(page, 'Domains with a managed certificate', 'connect.example.com').textContent(), /for agents/)
  await row(page, 'Certificates', /app\.example\.com.*Test CA/).waitFor()

  const renew = shown.getByRole('button', { name: 'Renew now' })
  await renew.click()
  await shown.getByText(`Ordered POST /reserved_domains/${domain.id}/certificate/renew`).waitFor()
  await until(async () => (await certificate()) !== first && (await issued()))
  t.equal(ca.orders.length, 3)
  await renew.click()
  t.match(await shown.getByRole('alert').textContent(), /too new.*ERR_SLUICE_RENEWAL_TOO_SOON/s)
  await picture('certificates-renewed')
})

t.test('events: where they go, tests, and those that are delivered again or dropped', BROWSER, async (t) => {
  const clock = new ManualClock(Date.now())
  const sluice = await startSluice(t, { options: { OUTBOUND_ALLOW_PRIVATE: 'true' }, clock })
  const ask = account(sluice)
  let mended = false
  const sink = await receiver(t, (request, response) => {
    const { event_type: type } = JSON.parse(request.body) as { event_type: string }
    response.writeHead(type === 'test.v0' || mended ? 204 : 422).end()
  })
  const { id } = await create(sluice, '/event_destinations', { target: { webhook: { url: sink.url } } })
  const sources = [{ type: 'vault_created.v0' }]
  await create(sluice, '/event_subscriptions', { description: 'vaults', sources, destination_ids: [id] })
  const vaults: string[] = []
  for (const name of ['first', 'second', 'third']) vaults.push((await create(sluice, '/vaults', { name })).id)
  const letters = async () => (await ask(`/event_destinations/${id}/dead_letters`)).json.dead_letters.length
  await until(async () => {
    // A test that is taken ends the pause after a failure.
    clock.advance(MINUTE)
    await ask(`/event_destinations/${id}/test`, { method: 'POST' })
    return (await letters()) === 3
  })

  const { page, go, picture } = await dashboard(t, { sluice })
  await go('events')
  const destination = row(page, 'Destinations of events', sink.url)
  await row(page, 'Subscriptions', /vaults.*vault_created\.v0.*webhook http/).waitFor()
  await destination.getByRole('button', { name: 'Send a test' }).click()
  await destination.getByText(`Delivered POST /event_destinations/${id}/test`).waitFor()
  await picture('events')
  await destination.getByRole('link', { name: '3' }).click()
  await page.getByRole('heading', { name: 'Not delivered' }).waitFor()
  const waiting = table(page, 'Events that could not be delivered').locator('tbody tr')
  await waiting.nth(2).waitFor()
  t.match(await waiting.first().textContent(), /vault_created\.v0.*422/)
  await picture('events-not-delivered')

  mended = true
  await waiting.last().getByRole('button', { name: 'Deliver again' }).click()
  await waiting.nth(2).waitFor({ state: 'detached' })
  await until(() => sink.taken.some(({ object }) => object.id === vaults[0]))
  await waiting.last().getByRole('button', { name: 'Drop', exact: true }).click()
  await confirm(page, 'Drop')
  await waiting.nth(1).waitFor({ state: 'detached' })
  t.equal(await letters(), 1)
  await page.getByRole('button', { name: 'Deliver all again' }).click()
  await page.getByText('All events were delivered').waitFor()
  await until(() => sink.taken.some(({ object }) => object.id === vaults[2]))
  t.notOk(
    sink.taken.some(({ object }) => object.id === vaults[1]),
    'what was dropped does not come'
  )
  const drop = page.getByRole('button', { name: 'Drop all' })
  await drop.and(page.locator('[title]')).waitFor()
  t.equal(await drop.getAttribute('title'), 'There is nothing to drop.')
})

t.test('processes: what each serves, and why one is not well', BROWSER, async (t) => {
  const clock = new ManualClock(Date.now())
  const ca = await startIssuingAuthority(t, clock, 20 * MINUTE)
  const options = { ACME_AGREE_TERMS: 'on', ACME_DIRECTORY: ca.authority.directory }
  const { page, go, call, sluice, picture } = await dashboard(t, { options, clock })
  await go('processes')
  const [process] = (await call('/processes')).json.processes
  const shown = row(page, 'Processes', process.id)
  t.match(await shown.textContent(), /this one.*serves/)
  await page.locator('.facts').getByText('ready', { exact: true }).waitFor()
  const policy = { certificate_management_policy: { authority: 'letsencrypt' } }
  await create(sluice, '/reserved_domains', { domain: 'app.example.com', ...policy })
  await until(async () => (await call('/tls_certificates')).json.tls_certificates.length === 1)
  const { revisions } = (await call('/revisions')).json
  await shown.getByRole('cell', { name: String(revisions[0].id), exact: true }).waitFor()
  ca.renewals.refusesOrders = 'serverInternal'
  clock.advance(21 * MINUTE)
  await page.locator('.facts').getByText('certificate_overdue').waitFor()
  await picture('processes-degraded')
})
