import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { create, site, visit } from '../../helpers/account.js'
import { dashboard, missing, paste, violations } from './browser.js'

const HOST = 'shop.localhost'
const LIMIT = (capacity: number) => `on_http_request:
  - name: few
    actions:
      - type: rate-limit
        config: { name: few, algorithm: sliding_window, capacity: ${capacity}, rate: 60s, bucket_key: [conn.client_ip] }
`
const TESTS = `cases:
  - name: three pass
    steps:
      - { request: { url: "http://${HOST}/" }, repeat: 3, expect: { status: 200 } }
      - { request: { url: "http://${HOST}/" }, expect: { status: 429, rule: few } }
`

/** A route with a policy and tests of it, opened on the page. */
async function opened(t: Test) {
  const upstream = createServer((_request, response) => response.end('hello')).listen(0, '127.0.0.1')
  await new Promise((listening) => upstream.once('listening', listening))
  t.teardown(async () => {
    upstream.close()
    upstream.closeAllConnections()
  })
  const shown = await dashboard(t)
  const { sluice } = shown
  const address = `127.0.0.1:${(upstream.address() as AddressInfo).port}`
  const backend = await create(sluice, '/backends/static', { address })
  const { route } = await site(sluice, HOST, {
    backend: { backend_id: backend.id },
    traffic_policy: { value: LIMIT(3) },
    policy_tests: TESTS
  })
  await shown.go('policies')
  await shown.page.getByRole('link', { name: new RegExp(HOST) }).click()
  await editor(shown.page).waitFor()
  return { ...shown, route, asked: async () => (await visit(sluice, HOST)).status }
}

const editor = (page: Page) => page.getByRole('textbox', { name: 'Policy', exact: true })
/** The lines that the editor shows. */
const textOf = async (page: Page) => (await editor(page).locator('.cm-line').allTextContents()).join('\n')
const tab = (page: Page, name: string | RegExp) => page.getByRole('tab', { name }).click()
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

t.test(
  'an edit that fails its tests is refused, one that passes serves and is taken back',
  { skip: missing, timeout: 90_000 },
  async (t) => {
    const { page, asked, picture, call, route } = await opened(t)
    await paste(editor(page), LIMIT(2))
    await tab(page, 'Difference')
    t.match(await page.locator('.difference .removed').textContent(), /capacity: 3/)
    t.match(await page.locator('.difference .added').textContent(), /capacity: 2/)
    await tab(page, 'Apply')
    await button(page, 'Apply').click()
    const refusal = await page.getByRole('alert').first().textContent()
    t.match(refusal, /the case "three pass" expected status "?200"? and found "?429"?.*POLICY_TESTS_FAILED/s)
    t.match((await call(route)).json.traffic_policy.value, /capacity: 3/, 'nothing has changed')

    await tab(page, 'Tests')
    await button(page, 'Run tests').click()
    await page.getByText('0 passed, 1 failed').waitFor()
    await picture('policies-tests')
    await paste(page.getByRole('textbox', { name: 'Tests' }), TESTS.replace('repeat: 3', 'repeat: 2'))
    await button(page, 'Run tests').click()
    await page.getByText('1 passed, 0 failed').waitFor()
    await button(page, 'Store tests').click()
    t.match(
      await page.getByRole('alert').first().textContent(),
      /POLICY_TESTS_FAILED/,
      'the policy that serves does not pass them'
    )

    await paste(editor(page), LIMIT(4))
    await paste(
      page.getByRole('textbox', { name: 'Tests' }),
      TESTS.replace('repeat: 3', 'repeat: 1').replace(/\n {6}- .*429.*/, '')
    )
    await button(page, 'Store tests').click()
    await page.getByText(/^Stored\b/).waitFor()
    await tab(page, 'Apply')
    await button(page, 'Dry run').click()
    await page.getByText('It would be accepted.').waitFor()
    await page.getByLabel('Watched for').fill('1s')
    await button(page, 'Apply').click()
    await page.getByText(/Revision \d+ serves/).waitFor()
    await page.getByText(/baking|inconclusive/).waitFor()
    t.match((await call(route)).json.traffic_policy.value, /capacity: 4/)
    t.same([await asked(), await asked(), await asked(), await asked(), await asked()], [200, 200, 200, 200, 429])
    await picture('policies-applied')
    await button(page, 'Revert').click()
    await page.getByText('The policy of before serves.').waitFor()
    t.match((await call(route)).json.traffic_policy.value, /capacity: 3/)
    await tab(page, 'History')
    await page.getByRole('table', { name: 'Revisions that changed this policy' }).getByRole('row').nth(2).waitFor()
  }
)

t.test(
  'a mistake is marked where it is, and completion writes what is right',
  { skip: missing, timeout: 90_000 },
  async (t) => {
    const { page, picture } = await opened(t)
    await paste(
      editor(page),
      `on_http_request:\n  - expressions: ["req.url.paht == '/'"]\n    actions: [{ type: deny }]\n`
    )
    await page.getByText('did you mean req.url.path?').waitFor()
    await page.locator('.editor .cm-lint-marker-error').waitFor()
    t.equal(await page.locator('.editor .cm-lintRange-error').textContent(), 'req.url.paht')
    await picture('policies-marks')
    await paste(editor(page), 'on_http_request:\n  - expressions: ["conn.client_')
    await editor(page).press('End')
    await page.keyboard.type('i')
    const listed = page.getByRole('listbox', { name: 'Suggestions' })
    await listed.waitFor()
    t.match(await listed.getByRole('option', { selected: true }).textContent(), /conn\.client_ip.*string/)
    await page.keyboard.press('Enter')
    t.match(await textOf(page), /"conn\.client_ip$/)
    await paste(editor(page), 'on_http_request:\n  - actions:\n      - type: rate')
    await editor(page).press('Control+End')
    await page.keyboard.press('Control+Space')
    await listed.getByRole('option', { name: /rate-limit/ }).waitFor()
    await page.keyboard.press('Enter')
    await page.keyboard.type('\n  config:\n  cap')
    await listed.getByRole('option', { name: /capacity/ }).waitFor()
    await page.keyboard.press('Escape')
    await listed.waitFor({ state: 'detached' })
    t.match(await textOf(page), /type: rate-limit\n {8}config:\n/, 'a line begins where the one before it does')
  }
)

t.test(
  'a request is tried and explained, and a shadow counts what would change',
  { skip: missing, timeout: 90_000 },
  async (t) => {
    const { page, asked, picture } = await opened(t)
    await paste(editor(page), LIMIT(1))
    await tab(page, 'Try')
    await page.getByLabel('Times').fill('2')
    await button(page, 'Try').click()
    await page.getByText('1 × forwarded, 1 × answered 429').waitFor()
    await page.locator('.explanation').getByText('RATE_LIMITED').first().waitFor()
    await picture('policies-try')
    t.equal(await asked(), 200, 'nothing was counted')

    await tab(page, 'Shadow')
    await page.getByLabel('Work for one request').fill('50ms')
    await button(page, 'Begin').click()
    await page.getByText('No request has come yet.').waitFor()
    t.same([await asked(), await asked()], [200, 200])
    await page.getByText('2 decided otherwise').waitFor()
    await page.getByRole('cell', { name: /limited 429/ }).waitFor()
    await picture('policies-shadow')
    await button(page, 'End').click()
    await page
      .getByText(/Ended:/)
      .first()
      .waitFor()
  }
)

/** A policy of `rules` rules in two lines each, of which the last has a mistake. */
const longPolicy = (rules: number) =>
  `on_http_request:\n${Array.from({ length: rules }, (_, at) => `  - expressions: ["req.url.${at === rules - 1 ? 'paht' : 'path'} == '/${at}'"]\n    actions: [{ type: deny }]\n`).join('')}`

t.test(
  'each line stands beside its number and its marks, however long the policy is',
  { skip: missing, timeout: 90_000 },
  async (t) => {
    const { page, picture } = await opened(t)
    const tops = (selector: string) =>
      page
        .locator(selector)
        .evaluateAll((all) => all.map((one) => [one.textContent ?? '', one.getBoundingClientRect().top] as const))
    for (const rules of [9, 17, 60]) {
      await paste(editor(page), longPolicy(rules))
      await page.getByText('did you mean req.url.path?').waitFor()
      // The keyboard goes to the end, as a person does who writes there.
      await editor(page).press('Control+End')
      await page.locator('.editor .cm-lint-marker-error').waitFor()
      const numbers = new Map(await tops('.editor .cm-lineNumbers .cm-gutterElement'))
      const [marked, at] = (await tops('.editor .cm-line:has(.cm-lintRange-error)'))[0] ?? []
      t.match(marked, /req\.url\.paht/)
      const line = 2 * rules
      t.equal(numbers.get(String(line)), at, `line ${line} stands beside its number`)
      const [, marker] = (await tops('.editor .cm-gutter-lint .cm-gutterElement:has(.cm-lint-marker-error)'))[0] ?? []
      t.equal(marker, at, 'and beside its mark')
      const lines = await tops('.editor .cm-line')
      t.equal(lines.at(-2)?.[0], '    actions: [{ type: deny }]', 'the end is shown')
      const box = await editor(page).evaluate((one) => one.parentElement?.getBoundingClientRect().bottom)
      t.ok(Number(lines.at(-1)?.[1]) < Number(box), 'nothing of it is cut')
    }
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      t.same(await violations(page), [], colorScheme)
      await picture(`policies-long-${colorScheme}`)
    }
    await editor(page).press('Tab')
    t.notOk(
      await page.evaluate("document.activeElement.classList.contains('editor')"),
      'Tab leaves the editor where no list is open'
    )
  }
)

t.test('the editor is loaded by the page of policies alone', { skip: missing, timeout: 90_000 }, async (t) => {
  const { page, go } = await dashboard(t)
  const loaded = () =>
    page.evaluate(() =>
      performance.getEntriesByType('resource').some(({ name }) => name.endsWith('/lib/codemirror.js'))
    )
  for (const place of ['traffic', 'routes', 'history', 'processes']) await go(place)
  t.notOk(await loaded())
  await go('policies')
  t.ok(await loaded())
})
