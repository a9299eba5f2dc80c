import t from 'tap'
import { call, sluice, started } from '../capabilities/site-file/site-kit.js'

t.test('a revision is undone from the command line', async (t) => {
  const folder = t.testdir({})
  const { api } = await started(t, folder)
  const made = await call(api, 'POST', '/ip_policies', { description: 'one' })
  t.equal(made.status, 201)
  const { revisions } = (await call(api, 'GET', '/revisions?limit=1')).body as { revisions: { id: number }[] }
  const revision = String(revisions[0]?.id)
  const revert = (...words: string[]) => sluice(folder, 'revert', revision, '--api', api, ...words)
  t.match(await revert('--dry-run'), { code: 0, out: /^- ip_policy ipp_\w+\nnothing was changed: --dry-run/ })
  t.match(await revert(), { code: 0, out: new RegExp(`reverted by revision ${Number(revision) + 1}`) })
  t.match(await revert(), { code: 1, err: /later writes stand in the way: ip_policy ipp_\w+: it is gone/ })
  t.match(await sluice(folder, 'revert', 'x', '--api', api), { code: 2, err: /x is no revision/ })
  t.match(await sluice(folder, 'revert', '1', '--api', 'http://192.0.2.1:4040'), { code: 2, err: /clear text/ })
})
