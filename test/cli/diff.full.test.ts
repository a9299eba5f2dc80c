import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { call, KEY, sluice, started, stopped } from '../capabilities/site-file/site-kit.js'
import { runCommand } from './command.js'

const policy = (status: number) => ({
  value: `on_http_request:\n  - actions:\n      - type: custom-response\n        config: { status_code: ${status} }\n`
})

t.test('a revision is shown, two are compared, and the account is exported as it was', async (t) => {
  const folder = t.testdir({})
  const { api, process } = await started(t, folder)
  const last = async () => Number((await call(api, 'GET', '/revisions?limit=1')).body.revisions[0].id)
  const edge = (await call(api, 'POST', '/edges/https', { hostports: ['a.example.com:443'] })).body
  const path = `/edges/https/${edge.id}/routes`
  const route = (await call(api, 'POST', path, { match: '/', traffic_policy: policy(200) })).body
  const vault = (await call(api, 'POST', '/vaults', { name: 'keys' })).body
  const secret = (name: string) =>
    call(api, 'POST', '/vault_secrets', { vault_id: vault.id, name, value: `${name}-value` })
  const [kept, lost] = [(await secret('kept')).body, (await secret('lost')).body]
  const before = await last()
  await call(api, 'PATCH', `${path}/${route.id}`, { description: 'the shop', traffic_policy: policy(404) })
  const changed = await last()
  await call(api, 'DELETE', `/edges/https/${edge.id}`)
  await call(api, 'PATCH', `/vault_secrets/${lost.id}`, { value: 'another-value' })

  const diff = (...words: string[]) => sluice(folder, 'diff', ...words, '--api', api)
  const shown = await diff(String(changed))
  t.match(shown, { code: 0, err: '' })
  t.match(shown.out, `~ https_edge_route a.example.com/ ${route.id} "the shop"\n    description: "" → "the shop"\n`)
  t.match(shown.out, '      -        config: { status_code: 200 }\n      +        config: { status_code: 404 }')
  t.notMatch(shown.out, '\u001b[', 'no colours but on a terminal')
  const compared = await diff(String(before), '--from', String(await last()))
  t.match(compared.out, new RegExp(`^revision ${before} compared with revision ${await last()}\n`))
  t.match(compared.out, `+ https_edge_route a.example.com/ ${route.id}`)
  t.match(compared.out, '    value: changed (secret)')
  t.notMatch(compared.out, 'metadata', 'what is empty is left out')
  t.notMatch(compared.out, /(kept|lost|another)-value/)
  t.match(JSON.parse((await diff(String(changed), '--json')).out), { id: changed, from: { id: changed - 1 } })
  t.match(await diff('9999'), { code: 1, err: /there is no such revision 9999/ })
  t.match(await diff('x'), { code: 2, err: /x is no revision/ })
  t.match(await diff('1', '--from', 'x'), { code: 2, err: /--from: x is no revision/ })

  await stopped(process)
  const env = { SLUICE_PASSPHRASE: 'correct horse battery', SLUICE_API_KEY: KEY }
  const run = (...words: string[]) => runCommand(t, words, { cwd: folder, env })
  t.match(await run('export', '--at', '9999'), { code: 1, err: /nothing was exported: there is no such revision 9999/ })
  t.match(await run('export', '--at', 'x'), { code: 2, err: /--at: x is no revision/ })
  t.match(await run('export', '--at', String(before), '--with-secrets', '--output', 'before.yaml'), {
    code: 0,
    err: ''
  })
  const exported = parse(await readFile(join(folder, 'before.yaml'), 'utf8'))
  t.match(exported.records.https_edge_route, [{ id: route.id, fields: { traffic_policy: policy(200) } }])
  t.match(exported.records.vault_secret, [
    { id: kept.id, sealed: String },
    { id: lost.id, withheld: ['value'] }
  ])
  t.notOk(exported.records.vault_secret[1].sealed, 'its value was replaced, and is not kept')
  t.match(await run('import', 'before.yaml', '--yes', '--prune'), { code: 0, out: /2 created, 0 updated, 0 deleted/ })
  const again = await started(t, folder)
  t.match((await call(again.api, 'GET', `${path}/${route.id}`)).body, { traffic_policy: policy(200) })
})
