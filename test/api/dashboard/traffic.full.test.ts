import t from 'tap'
import { create } from '../../helpers/account.js'
import { startSluice } from '../../helpers/sluice.js'
import { until } from '../../helpers/until.js'
import { dashboard, missing, violations } from './browser.js'
import { ask, openTraffic } from './traffic-kit.js'

const TIMES = { skip: missing, timeout: 120_000 }

for (const scheme of ['light', 'dark'] as const) {
  t.test(`a refusal is seen live, opened, and explained by its rule, ${scheme}`, TIMES, async (t) => {
    const { page, traffic, picture, sluice } = await openTraffic(t, { scheme })
    await page.getByText(`curl ${traffic}/`, { exact: true }).waitFor()
    t.match(
      await page.locator('.empty').textContent(),
      /No exchange yet.*keeps refused and failed requests.*recorder\.where/s
    )
    t.same(await violations(page), [], 'the empty page')
    await picture(`traffic-empty-${scheme}`)

    await ask(`${traffic}/limited`, 3)
    const row = page.getByRole('row').filter({ hasText: '429 rate-limit' })
    await row.waitFor()
    const rows = await page.getByRole('row').allTextContents()
    t.match(rows[1], /429 rate-limit/, 'the newest is the first')
    t.equal(rows.length, 4)
    t.match(
      await page.locator('[aria-live=polite]').textContent(),
      /^3 new requests, 1 rejected or failed$|^\d new request|^forwarded: GET/
    )
    t.same(await violations(page), [], 'the list')
    await picture(`traffic-live-${scheme}`)

    await row.getByRole('link', { name: /limited/ }).click()
    await page.getByRole('heading', { level: 1, name: /GET .*\/limited/ }).waitFor()
    t.equal(await page.evaluate('document.activeElement.tagName'), 'H1', 'readers of the screen are where the page is')
    const why = page.getByRole('region', { name: 'Why' })
    t.match(await why.textContent(), /429 RATE_LIMITED.*429 by limit ".*": 2 of 2 in 60s; free again in \d+s/s)
    t.match(await why.locator('[aria-current=true]').textContent(), /two a minute.*matched, and decided/s)
    t.match(await why.locator('[aria-current=true]').textContent(), /req\.url\.path = "\/limited".*"limited":true/s)
    const marked = why.locator('.policy-lines li.marked')
    await marked.first().waitFor()
    t.match(await marked.first().textContent(), /- name: two a minute/)
    t.match(await marked.last().textContent(), /bucket_key/)
    t.equal(await marked.count(), 10, 'the rule and nothing else')
    t.match(await why.textContent(), /The rule that decided: lines 5 to 14/)
    t.notMatch(await why.textContent(), /has changed since/)
    t.same(await violations(page), [], 'the exchange')
    await picture(`exchange-${scheme}`)
    await why.getByRole('button', { name: 'line 17' }).click()
    t.equal(await marked.count(), 4, 'another rule is marked')

    await sluice.reload('on_http_request:\n  - name: other\n    actions: [{ type: deny }]\n')
    await page.reload()
    await why.getByText('The policy has changed since').waitFor()
    t.match(await why.textContent(), /The rule two a minute is not found in this text/)
  })
}

t.test('exchanges are filtered by the words of the log, by CEL, and by a click', TIMES, async (t) => {
  const { page, traffic, list } = await openTraffic(t, { options: { RECORDER_WHERE: 'true' } })
  await ask(`${traffic}/closed`, 1)
  await ask(`${traffic}/open`, 2)
  const requests = page.getByRole('row').getByRole('link', { name: /^GET / })
  await until(async () => (await requests.count()) === 3)
  await page.getByLabel('status', { exact: true }).fill('4xx')
  await page.keyboard.press('Enter')
  await until(async () => (await requests.count()) === 1)
  t.match(await page.evaluate('location.hash'), /^#\/traffic\?status=4xx$/, 'it can be linked to')
  await page.getByText('Live', { exact: true }).waitFor()
  await ask(`${traffic}/open`, 1)
  await ask(`${traffic}/closed`, 1)
  await until(async () => (await requests.count()) === 2)
  t.same(
    await requests.allTextContents(),
    Array(2).fill(`GET ${traffic.slice(7)}/closed`),
    'what comes is filtered, too'
  )

  await page.getByRole('link', { name: 'Leave out status' }).click()
  await until(async () => (await requests.count()) === 5)
  await page.getByRole('row').getByRole('link', { name: 'closed', exact: true }).first().click()
  await until(async () => (await requests.count()) === 2)
  t.equal(await page.evaluate('location.hash'), '#/traffic?rule=closed')
  await page.getByRole('link', { name: '127.0.0.1', exact: true }).first().click()
  await page.getByLabel('Filtered by').getByText('client').waitFor()
  t.equal(await page.evaluate('location.hash'), '#/traffic?rule=closed&client=127.0.0.1')

  await list(`?where=${encodeURIComponent("req.method == 'GET' && res.status_code == 200")}`)
  await until(async () => (await requests.count()) === 3)
  await page.getByLabel('where', { exact: true }).fill("req.method == 'GET' && res.statuscode")
  await page.keyboard.press('Enter')
  const alert = page.getByRole('alert')
  await alert.waitFor()
  t.match(await alert.textContent(), /line 1, column 24: .*\^$/s, 'the place is told')
  t.match(await alert.locator('pre').textContent(), /\n {23}\^$/, 'and shown')
  t.equal(await page.getByLabel('where', { exact: true }).getAttribute('aria-invalid'), 'true')
  t.equal(await alert.count(), 1)
  await page.getByLabel('where', { exact: true }).fill('')
  await page.getByLabel('client', { exact: true }).fill('here')
  await page.keyboard.press('Enter')
  await page.getByText('client must be an IP address or a network').waitFor()
})

t.test('a paused page counts what comes and shows it afterwards', TIMES, async (t) => {
  const { page, traffic } = await openTraffic(t)
  await ask(`${traffic}/before`, 1)
  const requests = page.getByRole('row').getByRole('link', { name: /^GET / })
  await requests.first().waitFor()
  await page.keyboard.press('p')
  await ask(`${traffic}/meanwhile`, 2)
  await page.getByText('2 exchanges have come meanwhile.').waitFor()
  t.equal(await requests.count(), 1)
  t.equal(await page.locator('[aria-live=polite]').textContent(), 'Paused', 'the count is not read out')
  await page.getByRole('button', { name: 'Resume' }).click()
  await until(async () => (await requests.count()) === 3)
  t.match((await requests.allTextContents())[0], /meanwhile/)
  await page.keyboard.press('/')
  await page.keyboard.type('p/')
  t.equal(
    await page.getByLabel('where', { exact: true }).inputValue(),
    'p/',
    'keys of the page are letters in its fields'
  )
  t.equal(await page.getByRole('button', { name: 'Pause' }).count(), 1)
})

t.test('more than a person can read is sampled, and the page stays small and usable', TIMES, async (t) => {
  const { page, traffic } = await openTraffic(t)
  const work = Promise.all(Array.from({ length: 8 }, () => ask(`${traffic}/open`, 250)))
  await page.getByLabel('where', { exact: true }).focus()
  await page.keyboard.type('req.method')
  await work
  await page.getByText(/Sampled: at most 20 requests a second are shown, [\d,]+ are not\./).waitFor()
  t.equal(await page.getByLabel('where', { exact: true }).inputValue(), 'req.method', 'what is typed stays')
  const rows = await page.locator('.exchanges tbody tr').count()
  t.ok(rows >= 20 && rows <= 200, `${rows} rows`)
  t.equal(await page.locator('[aria-live=polite]').count(), 1)
  t.match(await page.locator('[aria-live=polite]').textContent(), /^\d+ new requests?, 0 rejected|^forwarded: /)
})

t.test('the keyboard is enough to open an exchange and to come back', TIMES, async (t) => {
  const { page, traffic } = await openTraffic(t)
  await ask(`${traffic}/closed`, 1)
  await ask(`${traffic}/open`, 1)
  await page.getByRole('link', { name: /GET .*\/open/ }).waitFor()
  await page.keyboard.press('/')
  let text = ''
  for (let tab = 0; tab < 30 && !/closed$/.test(text); tab++) {
    await page.keyboard.press('Tab')
    text = String(await page.evaluate('document.activeElement.textContent'))
  }
  t.match(text, /GET .*\/closed/)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: /closed/ }).waitFor()
  await page.keyboard.press('Tab')
  t.equal(await page.evaluate('document.activeElement.textContent'), 'All exchanges')
  await page.keyboard.press('Enter')
  await until(async () => /GET .*\/closed/.test(String(await page.evaluate('document.activeElement.textContent'))))
  t.pass('the focus is on the row that was opened')
})

t.test('a small window shows all of it', TIMES, async (t) => {
  const { page, traffic, picture } = await openTraffic(t, { size: { width: 360, height: 640 } })
  const fits = async (name: string) => {
    t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), `${name} does not scroll sideways`)
    await picture(`${name}-small`)
  }
  await fits('traffic-empty')
  await ask(`${traffic}/limited?${'long='.repeat(60)}`, 3)
  const row = page.getByRole('row').filter({ hasText: '429' })
  await row.waitFor()
  await fits('traffic-live')
  await row.getByRole('link', { name: /limited/ }).click()
  await page.locator('.policy-lines li.marked').first().waitFor()
  await fits('exchange')
  await page.getByRole('button', { name: 'Edit and replay' }).click()
  await page.getByRole('dialog').waitFor()
  await fits('exchange-edit')
})

t.test('members read why they see no traffic', TIMES, async (t) => {
  const sluice = await startSluice(t)
  const bot = await create(sluice, '/bot_users', { name: 'reader' })
  const { token } = await create(sluice, '/api_keys', { owner_id: bot.id })
  const { page, go } = await dashboard(t, { sluice, key: token })
  for (const place of ['traffic', 'traffic/exch_1']) {
    await go(place)
    await page.getByText('Only an administrator may do this.').waitFor()
  }
  t.same(await violations(page), [])
})

t.test('one request is explained by a key, and the list is saved and forgotten', TIMES, async (t) => {
  const { page, traffic, call } = await openTraffic(t)
  await page.getByRole('button', { name: 'Explain one request of my own' }).click()
  const command = page.locator('.panel .copyable pre')
  await command.waitFor()
  const [, key = ''] = /-H 'sluice-explain: ([\w-]+)'/.exec((await command.textContent()) ?? '') ?? []
  const answer = await fetch(`${traffic}/closed`, { headers: { 'sluice-explain': key } })
  const id = String(answer.headers.get('sluice-exchange'))
  t.match((await call(`/exchanges/${id}`)).json, { explanation: { decision: { status: 403 } } })
  await page.locator(`#open-${id}`).waitFor()
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save as HAR' }).click()
  ])
  t.equal(download.suggestedFilename(), 'exchanges.har')
  await page.getByRole('button', { name: 'Forget what is recorded' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Forget what is recorded' }).click()
  await page.getByText('No exchange yet').waitFor()
  t.equal((await call(`/exchanges/${id}`)).status, 404)
})
