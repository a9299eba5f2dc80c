import t from 'tap'
import { filteredPage, MAX_FILTERED } from '../../src/control/filtered-page.js'
import { ManualClock } from '../helpers/clock.js'
import { make, openAccount, pathIn } from './account.js'
import { type Ask, word } from './asking.js'
import { filtered } from './filtered.js'

type Item = Readonly<Record<string, unknown>>

t.test('a filter that is no condition over the fields is refused with its position', async (t) => {
  const { ask } = await openAccount(t)
  await make(ask, '/ip_policies')
  for (const [filter, position] of [
    ['obj.id > 1', /^\d+$/],
    ['obj.id', '1'],
    ['', '1'],
    ['req.method == "GET"', '1'],
    ['obj.id ==', /^\d+$/],
    ['obj.id.matches("(")', /^\d+$/],
    ['obj.created_at.add("soon") < now()', /^\d+$/]
  ] as const) {
    const refused = await ask(filtered('/ip_policies', filter))
    t.equal(word(t, refused), 'FILTER_INVALID', filter)
    t.match(refused, { status: 400, json: { details: { field: 'filter', position } } }, filter)
  }
  t.same((await ask(filtered('/ip_policies', 'false'))).json.ip_policies, [])
  t.equal(word(t, await ask(filtered('/ip_policies', 'true', { before_id: 'ipp_none' }))), 'QUERY_INVALID')
  t.equal(word(t, await ask(filtered('/ip_policies', `true${' && true'.repeat(700)}`))), 'QUERY_INVALID', 'too long')
})

t.test('pages of a filtered list are those of the whole list without what does not pass', async (t) => {
  const clock = new ManualClock()
  const { ask } = await openAccount(t, { clock })
  for (let count = 0; count < 130; count++) {
    await make(ask, '/ip_policies', { description: `d${count % 7}`, metadata: String(count) })
    if (count % 30 === 29) await clock.advance(86_400_000)
  }
  const all = await pagesOf(ask, '/ip_policies?limit=100')
  t.equal(all.length, 130)
  const now = clock.wall()
  const age = ({ created_at }: Item) => now - Date.parse(String(created_at))
  const filters: readonly [string, (item: Item) => boolean][] = [
    ['obj.description == "d3"', ({ description }) => description === 'd3'],
    [
      'obj.description in ["d1", "d2"] && !(obj.metadata.endsWith("1"))',
      (one) => /^d[12]$/.test(String(one.description)) && !String(one.metadata).endsWith('1')
    ],
    [
      'size(obj.metadata) == 3 || obj.metadata == "7"',
      ({ metadata }) => String(metadata).length === 3 || metadata === '7'
    ],
    ['obj.created_at >= daysAgo(2)', (one) => age(one) <= 2 * 86_400_000],
    ['obj.created_at > timestamp(time.now).subtract("36h")', (one) => age(one) < 36 * 3_600_000],
    ['obj.created_at.add("3d") < now()', (one) => age(one) > 3 * 86_400_000],
    [`obj.id == "${all[60]?.id}"`, ({ id }) => id === all[60]?.id],
    ['obj.metadata == "none of them"', () => false]
  ]
  for (const [filter, passes] of filters) {
    const expected = all.filter(passes).map(({ id }) => id)
    for (const limit of ['1', '9', '100']) {
      if (limit === '1' && expected.length > 20) continue
      const found = await pagesOf(ask, filtered('/ip_policies', filter, { limit }), Number(limit))
      t.same(
        found.map(({ id }) => id),
        expected,
        `${filter}, ${limit} a page`
      )
    }
  }
})

/** The objects of all pages; each page but the last one is full. */
async function pagesOf(ask: Ask, first: string, limit = 100): Promise<readonly Item[]> {
  const found: Item[] = []
  for (let path: string | null = first; path !== null; ) {
    const { json } = await ask(path)
    const next: string | null = json.next_page_uri
    if (next !== null && json.ip_policies.length !== limit) throw new Error(`a short page before ${next}`)
    found.push(...json.ip_policies)
    path = next === null ? null : pathIn(next)
  }
  return found
}

t.test('a member filters only what it may read, and no filter sees a secret', async (t) => {
  const { ask } = await openAccount(t)
  const bot = await make(ask, '/bot_users', { name: 'b' })
  const key = (await make(ask, '/api_keys', { owner_id: bot.id })).token
  await make(ask, '/credentials', { description: 'of the administrator' })
  const own = await ask('/credentials', { method: 'POST', body: { description: 'its own' }, key })
  const seen = await ask(filtered('/credentials', 'obj.description.contains("o")'), { key })
  t.same(
    seen.json.credentials.map(({ id }: Item) => id),
    [own.json.id]
  )
  const vault = await make(ask, '/vaults', { name: 'v' })
  await make(ask, '/vault_secrets', { name: 's', value: 'hidden', vault_id: vault.id })
  t.equal(word(t, await ask(filtered('/vault_secrets', 'obj.value == "hidden"'))), 'FILTER_INVALID')
  const tokens = await ask(filtered('/credentials', 'obj.token != null'))
  t.same(tokens.json.credentials, [], 'lists show no token')
})

t.test('one request reads a bounded number of records, and its cursor continues', async (t) => {
  const all = Array.from({ length: 2 * MAX_FILTERED + 50 }, (_, n) => {
    return { kind: 'x', id: `x_${n}`, createdAt: '', body: {}, secrets: {} }
  })
  let most = 0
  const find = async (limit: number, before: string | undefined) => {
    const from = before === undefined ? 0 : Number(before.slice(2)) + 1
    most = Math.max(most, limit)
    return { records: all.slice(from, from + limit), more: from + limit < all.length }
  }
  const present = async (records: readonly object[]) => records
  const page = (beforeId?: string) =>
    filteredPage(find, { limit: 2, beforeId, present, passes: (shown) => (shown as Item).id === `x_${all.length - 1}` })
  const first = await page()
  t.match(first, { records: [], next: `x_${MAX_FILTERED - 1}` })
  const second = await page(first?.next)
  t.match(second, { records: [], next: `x_${2 * MAX_FILTERED - 1}` })
  t.match(await page(second?.next), { records: [{ id: `x_${all.length - 1}` }], next: undefined })
  t.equal(most, 100, 'it reads them in small parts')
  t.equal(await filteredPage(async () => undefined, { limit: 1, present, passes: () => true }), undefined)
})

t.test('endpoints are selected by ids and URLs as older clients do', async (t) => {
  const { ask } = await openAccount(t)
  const traffic_policy = '{"on_http_request":[{"actions":[{"type":"deny"}]}]}'
  const made = []
  for (const name of ['a', 'b', 'c', 'd']) {
    made.push(await make(ask, '/endpoints', { type: 'cloud', url: `https://${name}.test`, traffic_policy }))
  }
  const [a, b, c] = made
  const urls = async (query: string) => {
    const { status, json, text } = await ask(`/endpoints?${query}`)
    t.equal(status, 200, text)
    return json.endpoints.map(({ url }: { url: string }) => url).sort()
  }
  t.same(await urls(`id=${a.id}&id=${b.id}`), ['https://a.test', 'https://b.test'])
  t.same(await urls(`url=${encodeURIComponent('https://c.test')}`), ['https://c.test'])
  t.same(await urls(`id=${a.id}&id=${c.id}&url=https%3A%2F%2Fc.test`), ['https://c.test'], 'both must hold')
  t.same(
    await urls(`id=${a.id}&id=${c.id}&filter=${encodeURIComponent('obj.host == "a.test" || obj.host == "d.test"')}`),
    ['https://a.test']
  )
  t.same(await urls('url=%22%5D'), [], 'a value is no part of the expression')
  const first = (await ask(`/endpoints?limit=1&id=${a.id}&id=${b.id}`)).json
  const next = await ask(pathIn(first.next_page_uri))
  t.same(
    [...first.endpoints, ...next.json.endpoints].map(({ id }) => id),
    [b.id, a.id],
    'the next page keeps the selection'
  )
  t.equal(next.json.next_page_uri, null)
  t.equal((await ask('/ip_policies?id=ipp_1')).status, 400, 'other lists have no such parameters')
})
