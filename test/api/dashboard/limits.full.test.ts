import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { create, visit } from '../../helpers/account.js'
import { dashboard, missing, violations } from './browser.js'

const LIMIT = { algorithm: 'sliding_window', capacity: 2, rate: '60s' }
const POLICY = JSON.stringify({
  on_http_request: [
    {
      name: 'limited',
      actions: [
        { type: 'rate-limit', config: { ...LIMIT, name: 'per client', bucket_key: ["getReqHeader('x-client')[0]"] } },
        {
          type: 'rate-limit',
          config: {
            ...LIMIT,
            name: 'pair',
            bucket_key: ['req.host', 'req.method'],
            enforce: false,
            capacity: 3,
            scope: 'cluster'
          }
        }
      ]
    }
  ]
})

async function stand(t: Test, setup: Parameters<typeof dashboard>[1] = {}) {
  const upstream = createServer((_, response) => response.end('here'))
  await new Promise<void>((ready) => upstream.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise((done) => upstream.close(done)))
  const { port } = upstream.address() as AddressInfo
  const open = await dashboard(t, { upstream: { port }, policy: POLICY, ...setup })
  const as = async (client: string, times = 1) => {
    const statuses: number[] = []
    for (let i = 0; i < times; i++)
      statuses.push((await visit(open.sluice, 'a.test', { headers: { 'x-client': client } })).status)
    return statuses
  }
  return { ...open, as }
}

t.test('who is refused is seen, looked up and reset, and goes on', { skip: missing, timeout: 90_000 }, async (t) => {
  const { page, go, as, picture } = await stand(t)
  await go('limits')
  const list = page.getByRole('region', { name: 'Limits' })
  await list.getByRole('link', { name: 'per client' }).waitFor()
  t.same(await as('bea', 3), [200, 200, 429])
  t.same(await as('ann', 6), [200, 200, 429, 429, 429, 429])
  const row = list.getByRole('row').filter({ hasText: 'per client' })
  await row.filter({ hasText: 'every other host' }).filter({ hasText: '2 in 60s' }).getByText('5').first().waitFor()
  const pair = list.getByRole('row').filter({ hasText: 'pair' })
  await pair.filter({ hasText: '3 in 60s, over the cluster' }).getByText('not enforced').waitFor()
  await picture('limits')
  await list.getByRole('link', { name: 'per client' }).click()

  await page.getByRole('heading', { name: 'per client', level: 1 }).waitFor()
  const top = page.getByRole('region', { name: 'Keys that are refused most' })
  const first = top.getByRole('row').nth(1)
  await first.filter({ hasText: /^ann\s*4/ }).waitFor()
  await page.getByText('2 of 2 at most in the last five minutes').waitFor()
  await page.getByText('4 admitted and 5 over the capacity').waitFor()
  await page.locator('.chart canvas').nth(1).waitFor()
  t.same(await violations(page), [])

  await page.getByLabel("getReqHeader('x-client')[0]").fill('ann')
  await page.getByRole('button', { name: 'Look up', exact: true }).last().click()
  const bucket = page.getByRole('region', { name: 'Bucket' })
  await bucket.getByText('2 of 2 used, 0 remain').waitFor()
  await bucket.getByText('is admitted at').waitFor()
  await picture('limit')
  t.same(await as('ann'), [429])

  await bucket.getByRole('button', { name: 'Reset' }).click()
  const asked = page.getByRole('dialog', { name: 'Reset' })
  t.match(await asked.textContent(), /Empties the bucket of "ann"/)
  await asked.getByRole('button', { name: 'Cancel' }).click()
  t.same(await as('ann'), [429], 'nothing was done')
  await bucket.getByRole('button', { name: 'Reset' }).click()
  await asked.getByRole('button', { name: 'Reset' }).click()
  await bucket.getByText('0 of 2 used, 2 remain').waitFor()
  await bucket.getByText(/DELETE \/limits\/lim_\w+\/buckets\?key=ann/).waitFor()
  t.same(await as('ann', 3), [200, 200, 429], 'the client goes on, up to the capacity')

  await top.getByRole('row').filter({ hasText: 'bea' }).getByRole('button', { name: 'Look up' }).click()
  await bucket.getByRole('heading', { name: 'bea' }).waitFor()
  await top.getByRole('row').filter({ hasText: 'bea' }).getByRole('button', { name: 'Reset' }).click()
  await asked.getByRole('button', { name: 'Reset' }).click()
  await bucket.getByText('0 of 2 used').waitFor()
  t.same(await as('bea'), [200])
})

t.test(
  'a key of several parts is looked up in a small window, by the keyboard alone',
  {
    skip: missing,
    timeout: 90_000
  },
  async (t) => {
    const { page, go, as, picture } = await stand(t, { size: { width: 360, height: 640 } })
    await as('ann', 5)
    await go('limits')
    const search = page.getByLabel('Search')
    await search.focus()
    await page.keyboard.type('pair')
    const list = page.getByRole('region', { name: 'Limits' })
    await list.getByRole('link', { name: 'per client' }).waitFor({ state: 'detached' })
    t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), 'the list does not scroll sideways')
    await list.getByRole('link', { name: 'pair' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'pair', level: 1 }).waitFor()
    await page.getByText('Would have refused').waitFor()
    await page.getByLabel('req.host').focus()
    await page.keyboard.type('a.test')
    await page.keyboard.press('Tab')
    await page.keyboard.type('GET')
    await page.keyboard.press('Enter')
    const bucket = page.getByRole('region', { name: 'Bucket' })
    await bucket.getByText('2 of 3 used, 1 remain').waitFor()
    t.same(await violations(page), [])
    t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), 'nor does a limit')
    await picture('limit-small')
    await bucket.getByRole('button', { name: 'Reset' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'Reset' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog', { name: 'Reset' }).waitFor({ state: 'detached' })
    t.equal(await page.evaluate('document.activeElement.textContent.trim()'), 'Reset', 'the focus comes back')
  }
)

t.test(
  'the page teaches where nothing is, and says why where it may not',
  { skip: missing, timeout: 90_000 },
  async (t) => {
    const { page, go, sluice, context, url } = await stand(t, { policy: 'on_http_request: []' })
    await go('limits')
    await page.getByRole('heading', { name: 'No rate limits' }).waitFor()
    t.match(await page.locator('.empty pre').textContent(), /type: rate-limit[\s\S]*bucket_key: \[conn.client_ip\]/)
    const taught = await page.locator('.empty pre').textContent()
    t.match(await sluice.reload(String(taught)), { ok: true }, 'what is taught is a policy')
    await page.getByRole('link', { name: 'per client' }).waitFor()
    await go('limits/lim_none')
    await page.getByText('there is no such limit lim_none').waitFor()

    const bot = await create(sluice, '/bot_users', { name: 'ann' })
    const { token } = await create(sluice, '/api_keys', { owner_id: bot.id })
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('API key').fill(token)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('navigation', { name: 'Pages' }).waitFor()
    await go('limits')
    await page.getByText('Only an administrator may do this.').waitFor()
    t.equal(await page.getByRole('table').count(), 0)
    t.same(await violations(page), [])
    t.ok((await context.cookies(url)).length > 0)
  }
)

t.test('keys that are not kept are said to be so', { skip: missing, timeout: 90_000 }, async (t) => {
  const { page, go, as } = await stand(t, { options: { LIMITER_TOP_KEYS: 'off' }, scheme: 'dark' })
  await as('ann', 3)
  await go('limits')
  await page.getByRole('link', { name: 'per client' }).click()
  await page.getByText('so rejected keys are not listed').waitFor()
  t.same(await violations(page), [])
})

t.test('a limit of plans shows what its policy says', { skip: missing, timeout: 90_000 }, async (t) => {
  const plan = "req.method == 'GET' ? 3 : 9"
  const config = { ...LIMIT, name: 'plans', capacity: plan, cost: '1 + size(req.url.query)', bucket_key: ['req.host'] }
  const policy = JSON.stringify({ on_http_request: [{ name: 'limited', actions: [{ type: 'rate-limit', config }] }] })
  const { page, go, as } = await stand(t, { policy })
  t.same(await as('ann', 4), [200, 200, 200, 429])
  await go('limits')
  const list = page.getByRole('region', { name: 'Limits' })
  await list
    .getByRole('row')
    .filter({ hasText: `${plan} in 60s` })
    .getByRole('link', { name: 'plans' })
    .click()
  await page.getByText(`${plan} in any 60s, for each bucket`).waitFor()
  await page.getByText('1 + size(req.url.query)').waitFor()
  await page.getByText('3 at most in the last five minutes').waitFor()
  await page.getByLabel('req.host').fill('a.test')
  await page.getByRole('button', { name: 'Look up', exact: true }).last().click()
  const bucket = page.getByRole('region', { name: 'Bucket' })
  await bucket.getByText('3 used; each request brings its own capacity.').waitFor()
  await bucket.getByText('in use', { exact: true }).waitFor()
  t.same(await violations(page), [])
})
