import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { SluiceProcess } from '../../cli/process.js'
import { until } from '../../helpers/until.js'
import { KEY, sluice, started } from '../site-file/site-kit.js'

const POLICY = `on_http_request:
  - name: no admin
    expressions: ["req.url.path.startsWith('/admin')"]
    actions: [{ type: deny }]
`

async function stand(t: Test, env: Record<string, string> = {}) {
  const folder = t.testdir({ 'policy.yaml': POLICY, 'other.yaml': POLICY.replace('/admin', '/open') })
  const server = createServer((_, response) => response.end('here'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())))
  const { port } = server.address() as AddressInfo
  const up = ['--upstream', `http://127.0.0.1:${port}`, '--policy', 'policy.yaml']
  const { api, traffic, process } = await started(t, folder, env, ...up)
  const run = (...more: string[]) => sluice(folder, ...more, '--api', api)
  return { folder, api, traffic, run, process }
}

t.test('recorded exchanges are shown, explained, sent again and decided by another policy', async (t) => {
  const { folder, traffic, run } = await stand(t, {
    SLUICE_RECORDER_WHERE: 'true',
    SLUICE_RECORDER_EXPLAIN: "req.url.path == '/admin'",
    SLUICE_RECORDER_FILE: 'exchanges.jsonl'
  })
  t.equal((await fetch(`${traffic}/admin?token=s3cret`)).status, 403)
  t.equal((await fetch(`${traffic}/open`)).status, 200)
  await until(async () => (await run('log')).out.split('\n').length === 2)
  const { out } = await run('log')
  t.match(
    out,
    /GET \S+\/admin\?token=\[redacted\] 403 by deny, rule "no admin" [\d.]+ms exch_\w+\n.*\/open 200 by http/
  )
  const [id = ''] = /exch_\w+/.exec(out) ?? []
  t.match(await run('log', id), { code: 0, out: /policy:2:5 no admin: matched\n.*req\.url\.path[\s\S]*"\/admin"/ })
  t.match(await run('log', '--status', '2xx', '--json'), { code: 0, out: /^\{"id":"exch_\w+".*"decided":"forwarded"/ })
  t.match(JSON.parse((await run('log', '--har')).out), { log: { entries: [{}, {}] } })
  await writeFile(join(folder, 'passed.har'), (await run('log', '--har')).out)
  await writeFile(join(folder, 'policy.test.yaml'), 'recorded: [passed.har]\n')
  await writeFile(join(folder, 'other.test.yaml'), 'recorded: [passed.har]\n')
  t.match(await sluice(folder, 'test', 'policy.test.yaml'), { code: 0, out: /1 passed/ })
  t.match(await sluice(folder, 'test', 'other.test.yaml'), {
    code: 1,
    out: /decided as in passed\.har[\s\S]*decided[\s\S]*403 deny[\s\S]*forwarded/
  })
  t.match(await run('log', '--where', 'req.'), { code: 1, err: /where line 1, column 5/ })
  t.match(await run('log', 'exch_none'), { code: 1, err: /no such exchange/ })
  t.match(await run('replay', id, '--url', `${traffic}/open`), { code: 0, out: /\/open 200 by http/ })
  t.match(await run('replay', '--policy', 'other.yaml'), {
    code: 1,
    out: /changed 3[\s\S]*403 deny → forwarded: 1 of 1 clients[\s\S]*refused: 1 of 1 clients before, 2 of 1 clients after/
  })
  t.match(await run('replay', '--policy', 'policy.yaml'), { code: 0, out: /same 3, changed 0, not judged 0/ })
  t.match(await run('replay', '--capacity', 'x'), { code: 2, err: /--capacity/ })
  const lines = (await readFile(join(folder, 'exchanges.jsonl'), 'utf8')).trim().split('\n')
  t.equal(lines.length, 3)
  t.notMatch(lines.join(''), /s3cret/)
  t.match(JSON.parse(lines[0] as string), { id, decided: '403 deny' })
})

t.test('a refusal that is recorded by default names its rule and action, and is explained on demand', async (t) => {
  const { traffic, run } = await stand(t)
  t.equal((await fetch(`${traffic}/admin?token=s3cret`, { headers: { 'x-page': 'one' } })).status, 403)
  await until(async () => (await run('log')).out.includes('/admin'))
  const [id = ''] = /exch_\w+/.exec((await run('log')).out) ?? []
  const shown = await run('log', id)
  t.match(shown, { code: 0, out: /403 by deny, rule "no admin" .*\n {2}site default, route default\n/ })
  t.match(
    shown.out,
    /\n {2}decided by deny, rule "no admin", in on_http_request\n {2}rules and values are not recorded/
  )
  t.match(shown.out, `sluice log ${id} --explain`)
  const explained = await run('log', id, '--explain')
  t.match(explained, { code: 0, out: /current counters: same decision as recorded\n/ })
  t.match(explained.out, /policy:2:5 no admin: matched\n.*req\.url\.path[\s\S]*"\/admin"[\s\S]*deny/)
  const {
    decision,
    explanation,
    explained_again: again
  } = JSON.parse((await run('log', id, '--explain', '--json')).out)
  t.match(decision, { status: 403, by: { rule: 'no admin', action: 'deny' }, reason: '403 by deny, rule "no admin"' })
  t.equal(explanation, null)
  t.match(again.decision, { status: 403, by: { rule: 'no admin', action: 'deny' } })
  t.notMatch(explained.out, /s3cret/)
  t.equal((await run('log', '--json')).out.trim().split('\n').length, 1, 'an explanation is no request')
})

t.test('exchanges are followed on the terminal, with explanations', async (t) => {
  const { folder, api, traffic, run } = await stand(t)
  t.match(await run('log'), { code: 0, err: /no recorded requests yet/ })
  const words = ['log', '--follow', '--explain', '--where', 'res.status_code == 403', '--api', api]
  const following = new SluiceProcess(t, words, { cwd: folder, env: { SLUICE_API_KEY: KEY } })
  const shown: string[] = []
  following.child.stdout?.on('data', (chunk: Buffer) => shown.push(chunk.toString()))
  await until(async () => {
    await fetch(`${traffic}/open`)
    await fetch(`${traffic}/admin`)
    return shown.join('').includes('answered: 403 by deny, rule "no admin"')
  })
  t.notMatch(shown.join(''), /\/open/)
  following.child.kill('SIGINT')
  await following.ended()
})
