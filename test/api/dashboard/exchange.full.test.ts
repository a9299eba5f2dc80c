import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import t from 'tap'
import { policyTesting } from '../../../src/capabilities/policy-tests/stored-tests.js'
import { create, site, visit } from '../../helpers/account.js'
import { until } from '../../helpers/until.js'
import { missing, violations } from './browser.js'
import { ask, type OpenTraffic, openTraffic, POLICY } from './traffic-kit.js'

const TIMES = { skip: missing, timeout: 120_000 }
const BODIES = { RECORDER_BODIES: '64KiB' }

/** Opens the newest exchange that has this text in its row. */
async function open({ page }: OpenTraffic, text: string): Promise<void> {
  await page.getByRole('row').filter({ hasText: text }).first().locator('th a').click()
  await page.getByRole('heading', { level: 2, name: 'Why' }).waitFor()
}

async function post(traffic: string): Promise<void> {
  const headers = { authorization: 'Bearer s3cret', 'content-type': 'application/json', 'x-note': "it's $HOME `x`" }
  await (await fetch(`${traffic}/orders?n=1`, { method: 'POST', headers, body: '{"amount":7}' })).arrayBuffer()
}

async function copied(page: Page): Promise<string> {
  return String(await page.evaluate('navigator.clipboard.readText()'))
}

t.test('a request is sent again, as it came or changed', TIMES, async (t) => {
  const stand = await openTraffic(t, { options: BODIES })
  const { page, traffic, seen, picture } = stand
  await post(traffic)
  await open(stand, '/orders')
  t.match(await page.getByLabel('Request', { exact: true }).textContent(), /authorization\[redacted\].*"amount": 7/s)
  t.match(await page.getByLabel('Answer', { exact: true }).textContent(), /200.*"ok": true/s)
  t.match(await page.getByLabel('Request to the upstream').textContent(), /x-tiergold/)
  t.match(await page.getByRole('region', { name: 'Tries' }).textContent(), /http:\/\/127\.0\.0\.1:\d+200/)
  await page.getByRole('img', { name: /in all: .* until the upstream answered/ }).waitFor()
  await page.getByRole('button', { name: 'Replay', exact: true }).click()
  const replays = page.getByRole('region', { name: 'Replays' })
  await replays.getByText('decided as before').waitFor()
  t.match(seen[1], {
    method: 'POST',
    url: '/orders?n=1',
    body: '{"amount":7}',
    headers: { authorization: 'Bearer s3cret' }
  })
  t.match(await page.locator('main').textContent(), /POST \/exchanges\/exch_\w+\/replay/, 'the call is shown')

  await page.getByRole('button', { name: 'Edit and replay' }).click()
  const dialog = page.getByRole('dialog', { name: 'Edit and replay' })
  t.same(await violations(page), [])
  await picture('exchange-edit')
  const headers = dialog.getByLabel('Headers')
  const before = await headers.inputValue()
  t.match(before, /authorization: \[redacted\]/)
  await headers.fill(before.replace('authorization: [redacted]', 'authorization: Basic [redacted]'))
  await dialog.getByRole('button', { name: 'Send' }).click()
  await dialog.getByText('The value of authorization is redacted').waitFor()
  await headers.fill(`${before.replace(/x-note: .*/, 'x-other: 1')}\nx-b: 2\nx-b: 3`)
  await dialog.getByLabel('Method').fill('PUT')
  await dialog.getByLabel('URL').fill(`${traffic}/closed`)
  await dialog.getByLabel('Body').fill('{"amount":8}')
  await dialog.getByRole('button', { name: 'Send' }).click()
  await replays.getByText('before: forwarded').waitFor()
  t.match(await replays.getByRole('listitem').first().textContent(), /^403 deny.*PUT .*\/closed/s)
  t.equal(seen.length, 2, 'the policy refused it')
  await page.getByRole('button', { name: 'Edit and replay' }).click()
  await headers.fill(`${before.replace(/x-note: .*/, 'x-other: 1')}\nx-b: 2\nx-b: 3`)
  await dialog.getByLabel('Body').fill('{"amount":8}')
  await dialog.getByRole('button', { name: 'Send' }).click()
  await replays.getByRole('listitem').nth(2).waitFor()
  t.match(seen[2], { body: '{"amount":8}', headers: { authorization: 'Bearer s3cret', 'x-other': '1', 'x-b': '2, 3' } })
  t.equal(seen[2]?.headers['x-note'], undefined)
  await replays.getByRole('link').first().click()
  await page.getByText('A replay of').waitFor()
})

t.test('an exchange is copied as a command that sends it again', TIMES, async (t) => {
  const stand = await openTraffic(t, { options: BODIES })
  const { page, context, traffic, seen } = stand
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await post(traffic)
  await open(stand, '/orders')
  await page.getByRole('button', { name: 'Copy as curl' }).click()
  await page.getByText('Copied. Not all of it is known: secret headers are shell variables.').waitFor()
  const command = await copied(page)
  t.match(command, /^curl -i .*-H 'authorization: '"\$SECRET_AUTHORIZATION" .*--data-raw '\{"amount":7\}' 'http:/)
  if (!existsSync('/usr/bin/curl')) return
  const env = { ...process.env, SECRET_AUTHORIZATION: 'Bearer other' }
  const { stdout } = await promisify(execFile)('sh', ['-c', command], { env })
  t.match(stdout, /^HTTP\/1\.1 200.*\{"ok":true\}$/s)
  t.match(seen[1], {
    method: 'POST',
    url: '/orders?n=1',
    body: '{"amount":7}',
    headers: { authorization: 'Bearer other' }
  })
  t.equal(seen[1]?.headers['x-note'], "it's $HOME `x`")
})

t.test('a command leads to the listener that took the request', TIMES, async (t) => {
  const stand = await openTraffic(t)
  const { page, context, sluice } = stand
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await visit(sluice, 'shop.example.com', { path: '/closed' })
  await open(stand, 'shop.example.com')
  await page.getByRole('button', { name: 'Copy as curl' }).click()
  await page.getByText('Copied.').waitFor()
  const command = await copied(page)
  t.equal(command, `curl -i --connect-to '::127.0.0.1:${sluice.port}' 'http://shop.example.com/closed'`)
  if (!existsSync('/usr/bin/curl')) return
  t.match((await promisify(execFile)('sh', ['-c', command])).stdout, /^HTTP\/1\.1 403/)
})

t.test('a test is made of an exchange, holds, and fails where the policy is another', TIMES, async (t) => {
  const stand = await openTraffic(t, { options: BODIES })
  const { page, traffic, picture } = stand
  const made = async (text: string) => {
    await open(stand, text)
    await page.getByRole('button', { name: 'Make a test' }).click()
    const dialog = page.getByRole('dialog', { name: 'Make a test' })
    await dialog.getByText('It passes with the running configuration.').waitFor()
    const yaml = String(await dialog.locator('pre').first().textContent())
    t.same(await violations(page), [])
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('link', { name: 'All exchanges' }).click()
    await page.getByText('Live', { exact: true }).waitFor()
    return yaml
  }
  const run = policyTesting()
  await ask(`${traffic}/limited`, 3)
  await post(traffic)
  const limited = await made('429 rate-limit')
  t.match(limited, /decided: "429 rate-limit", status: 429, rule: "two a minute", action: "rate-limit"/)
  t.match(limited, /repeat: 2\n/)
  t.same(await run({ policy: POLICY, tests: limited }), [])
  const [failure] = await run({ policy: POLICY.replace('capacity: 2', 'capacity: 3'), tests: limited })
  t.match(failure, { code: 'POLICY_TESTS_FAILED' })
  const forwarded = await made('/orders')
  t.match(forwarded, /# Secret, and so not here: authorization/)
  t.match(forwarded, /body: "\{\\"amount\\":7\}"/)
  t.same(await run({ policy: POLICY, tests: forwarded }), [])
  await open(stand, '429')
  await page.getByRole('button', { name: 'Make a test' }).click()
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save as policy.test.yaml' }).click()
  ])
  t.equal(download.suggestedFilename(), 'policy.test.yaml')
  t.match(await page.getByRole('dialog').textContent(), /The policy lives in .*policy\.yaml, and so do its\s+tests/)
  await picture('exchange-test')
})

t.test('a test is kept with the route of the API, which refuses a policy that fails it', TIMES, async (t) => {
  const stand = await openTraffic(t)
  const { page, sluice, call, list } = stand
  const backend = await create(sluice, '/backends/http_response', { status_code: 204 })
  const known = await create(sluice, '/ip_policies', {})
  await create(sluice, '/ip_policy_rules', { ip_policy_id: known.id, cidr: '127.0.0.0/8', action: 'allow' })
  const vault = await create(sluice, '/vaults', { name: 'keys' })
  await create(sluice, '/vault_secrets', { vault_id: vault.id, name: 'up', value: 'very-hidden-value' })
  const policy = `${POLICY}  - name: known
    actions:
      - { type: restrict-ips, config: { ip_policies: [${known.id}] } }
      - { type: add-headers, config: { headers: { x-key: "\${secrets.get('keys', 'up')}" } } }
`
  const { route } = await site(sluice, 'shop.example.com', {
    backend: { enabled: true, backend_id: backend.id },
    traffic_policy: { enabled: true, value: policy }
  })
  const keep = async (text: string) => {
    await list()
    await open(stand, text)
    await page.locator('.policy-lines').waitFor()
    await page.getByRole('button', { name: 'Make a test' }).click()
    await page.getByRole('button', { name: 'Add to the stored tests' }).click()
    await page.getByText('Added.').waitFor()
    await page.getByRole('button', { name: 'Close' }).click()
  }
  await visit(sluice, 'shop.example.com:443', { path: '/open' })
  await keep('204')
  for (let n = 0; n < 3; n++) await visit(sluice, 'shop.example.com:443', { path: '/limited' })
  await keep('429 rate-limit')
  const { policy_tests: tests } = (await call(route)).json
  t.match(tests, `ip_policies:\n  ${known.id}: { allow: ["127.0.0.0/8"], deny: [] }`)
  t.match(tests, /secrets:\n {2}"keys": \{ "up": for-tests \}/)
  t.notMatch(tests, /very-hidden/)
  t.equal(tests.match(/^ {2}- name:/gm)?.length, 2, 'two cases')
  t.same(await policyTesting()({ policy, tests }), [])
  const value = policy.replace('capacity: 2', 'capacity: 5')
  t.match(await call(route, { method: 'PATCH', body: { traffic_policy: { enabled: true, value } } }), {
    status: 400,
    json: { error_code: 'ERR_SLUICE_POLICY_TESTS_FAILED' }
  })
})

t.test(
  'what was not explained is explained now, and what is forgotten stays while the page is open',
  TIMES,
  async (t) => {
    const stand = await openTraffic(t)
    const { page, traffic, call } = stand
    await page.getByLabel('Explain', { exact: true }).uncheck()
    await page.getByText('Live', { exact: true }).waitFor()
    await ask(`${traffic}/limited`, 3)
    await open(stand, '429')
    await page.getByText('It was not explained when it came.').waitFor()
    await page.getByText(/^Decided by rate-limit of rule .+ in on_http_request\.$/).waitFor()
    await page.getByRole('button', { name: 'Explain it now' }).click()
    await page.getByText('Same decision as recorded.').waitFor()
    await page.locator('.policy-lines li.marked').first().waitFor()
    t.same(await violations(page), [])
    t.equal((await call('/exchanges', { method: 'DELETE' })).status, 204)
    await page.getByRole('link', { name: 'All exchanges' }).click()
    await open(stand, '429')
    await page.getByText('The process no longer has this request; this page still shows it.').waitFor()
    t.ok(await page.getByRole('button', { name: 'Replay', exact: true }).isDisabled())
    await page.reload()
    await page.getByText('This request is no longer recorded').waitFor()
  }
)

t.test('cases are added to documents of tests as people write them', TIMES, async (t) => {
  const { page } = await openTraffic(t)
  const added = async (document: string) =>
    await page.evaluate(
      `import('/dashboard/test-case.js').then(({ withCase }) => withCase(${JSON.stringify(document)}, '- name: new\\n  now: x'))`
    )
  const one = '  - name: new\n    now: x\n'
  t.equal(await added('cases:\n  - name: a\n    request: {}\n'), `cases:\n  - name: a\n    request: {}\n${one}`)
  t.equal(
    await added('cases: # all\n- name: a\n# more\n- name: b\n  x: 1\n\ndefaults: { host: h }'),
    'cases: # all\n- name: a\n# more\n- name: b\n  x: 1\n- name: new\n  now: x\n\ndefaults: { host: h }\n'
  )
  t.equal(await added('recorded: [a.har]'), `recorded: [a.har]\ncases:\n${one}`)
  t.equal(await added('cases: [{ name: a }]'), undefined)
  t.equal(await added('{"cases":[]}'), undefined)
})

t.test('how a shadow decides an exchange otherwise stands beside it', TIMES, async (t) => {
  const stand = await openTraffic(t)
  const { page, traffic, call } = stand
  const text = 'on_http_request: [{ name: strict, actions: [{ type: deny }] }]'
  const body = { budget: '50ms', policies: [{ route: 'default', text }] }
  const { id } = (await call('/shadows', { method: 'POST', body })).json
  await ask(`${traffic}/open`, 1)
  await until(async () => (await call(`/shadows/${id}`)).json.counts.changed === 1)
  await open(stand, '/open')
  const shadow = page.getByRole('region', { name: 'Shadow' })
  t.match(
    await shadow.textContent(),
    /otherwise: denied\s+403\s+POLICY_DENIED\s+by deny of rule strict; what serves: forwarded\.\s+Different: decision/
  )
  await shadow.getByText('Decision of the candidate policy').click()
  await shadow.getByText('matched, and decided').waitFor()
  t.same(await violations(page), [])
})
