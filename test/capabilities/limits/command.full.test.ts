import t, { type Test } from 'tap'
import { sluice, started, upstream } from '../site-file/site-kit.js'

const action = (name: string, more: string) =>
  `{ type: rate-limit, config: { name: ${name}, algorithm: sliding_window, rate: 60s, ${more} } }`
const POLICY = `on_http_request:
  - name: limited
    actions:
      - ${action('per client', 'capacity: 1, bucket_key: ["getReqHeader(\'x-client\')[0]"]')}
      - ${action('pair', 'capacity: 9, bucket_key: ["getReqHeader(\'x-client\')[0]", req.method]')}
      - ${action('twice', 'capacity: 9, bucket_key: [req.host]')}
      - ${action('twice', 'capacity: 9, bucket_key: [req.method], enforce: false')}
`

async function stand(t: Test) {
  const folder = t.testdir({ 'policy.yaml': POLICY })
  const words = ['--upstream', `http://${await upstream(t, 'here')}`, '--policy', 'policy.yaml']
  const { api, traffic } = await started(t, folder, {}, ...words)
  const run = (...more: string[]) => sluice(folder, 'limits', ...more, '--api', api)
  const visit = async (client: string) => (await fetch(traffic, { headers: { 'x-client': client } })).status
  return { folder, run, visit }
}

t.test('limits are listed, and a client that is refused is found and let go', async (t) => {
  const { run, visit } = await stand(t)
  t.same([await visit('ann'), await visit('ann'), await visit('ann'), await visit('bea')], [200, 429, 429, 200])
  const { code, out } = await run()
  t.equal(code, 0)
  const lines = out.trim().split('\n')
  t.equal(lines.length, 4)
  t.match(
    lines[0],
    /^lim_[0-9a-f]{24} "per client" of every other host, rule "limited": 1 in 60s; 2 buckets, 2 admitted, 2 refused, 2 lately$/
  )
  t.match(out, /"twice" .*: 9 in 60s, not enforced; 1 bucket, 2 admitted, 0 refused, 0 would be, 0 lately$/m)
  t.equal((await run('--text', 'PAIR')).out.trim().split('\n').length, 1)
  const [id = ''] = /lim_\w+/.exec(out) ?? []

  const top = await run('top', id)
  t.match(top, { code: 0, out: /^2 refused \["ann"\], last at \d\d:\d\d:\d\d bkt_\w+$/ })
  t.match(await run('key', id, 'ann'), {
    code: 0,
    out: /^\["ann"\] 1 of 1 used, 0 remain; the next is admitted in \d+s, at 20\S+Z, all is free in \d+s bkt_\w+$/
  })
  const [bucket = ''] = /bkt_\w+/.exec(top.out) ?? []
  t.match(await run('reset', 'per client', '--bucket', bucket), {
    code: 0,
    out: /^emptied: \["ann"\] 0 of 1 used, 1 remain; the next is admitted bkt_/
  })
  t.equal(await visit('ann'), 200)
  t.equal(await visit('ann'), 429)
  t.match(await run('reset', 'per client', 'ann'), { code: 0, out: /^emptied: / })
  t.equal(await visit('ann'), 200)
})

t.test('keys of several parts, JSON, and what is wrong', async (t) => {
  const { run, visit, folder } = await stand(t)
  await visit('ann')
  t.match(await run('key', 'pair', 'ann', 'GET'), { code: 0, out: /^\["ann","GET"\] 1 of 9 used, 8 remain/ })
  t.match(await run('key', 'pair', '--values', '["ann","GET"]'), { code: 0, out: /1 of 9 used/ })
  const { out } = await run('key', 'pair', 'ann', 'GET', '--json')
  t.match(JSON.parse(out), { used: 1, capacity: 9, limit: { name: 'pair' } })
  t.match(JSON.parse((await run('top', 'pair', '--json')).out), { keys: [] })
  t.match(await run('top', 'pair'), { code: 0, out: '', err: /no requests were rejected/ })
  const all = (await run('--json')).out.trim().split('\n')
  t.match(
    all.map((line) => JSON.parse(line)).find(({ name }) => name === 'pair'),
    { admitted: 1 }
  )
  t.match(await run('key', 'pair', 'ann'), { code: 1, err: /several/ })
  t.match(await run('key', 'twice', 'x'), {
    code: 1,
    err: /several limits have this name; give an id\n {2}lim_.*\n {2}lim_/
  })
  t.match(await run('key', 'nothing', 'x'), { code: 1, err: /nothing: no limit has this name/ })
  t.match(await run('key', 'lim_0', 'x'), { code: 1, err: /there is no such limit lim_0/ })
  t.match(await run('key', 'pair'), { code: 2, err: /name the bucket/ })
  t.match(await run('key', 'pair', 'x', '--bucket', 'y'), { code: 2, err: /name the bucket/ })
  t.match(await run('top', 'pair', '--limit', 'many'), { code: 1, err: /limit must be a whole number/ })
  t.match(await run('undo'), { code: 2 })
  t.match(await sluice(folder, 'limits', '--api', 'http://192.0.2.1'), { code: 2, err: /clear text/ })
})

t.test('a capacity and a cost that come with each request are shown as they are written', async (t) => {
  const capacity = 'size(req.method) == 3 ? 5 : 2'
  const cost = 'size(req.method)'
  const amounts = `capacity: "${capacity}", cost: "${cost}", bucket_key: ["getReqHeader('x-client')[0]"]`
  const policy = `on_http_request:\n  - name: limited\n    actions: [${action('plans', amounts)}]\n`
  const folder = t.testdir({ 'policy.yaml': policy })
  const words = ['--upstream', `http://${await upstream(t, 'here')}`, '--policy', 'policy.yaml']
  const { api, traffic } = await started(t, folder, {}, ...words)
  const visit = async () => (await fetch(traffic, { headers: { 'x-client': 'ann' } })).status
  t.same([await visit(), await visit()], [200, 429])
  const run = (...more: string[]) => sluice(folder, 'limits', ...more, '--api', api)
  const { out } = await run()
  t.ok(out.includes(`: (${capacity}) in 60s, cost (${cost}); 1 bucket, 1 admitted, 1 refused, 1 lately`), out)
  t.match(
    (await run('key', 'plans', 'ann')).out,
    /^\["ann"\] 3 used, of what each request may have; all is free in \d+s bkt_\w+$/
  )
  t.match(
    (await run('reset', 'plans', 'ann')).out,
    /^emptied: \["ann"\] 0 used, of what each request may have bkt_\w+$/
  )
})
