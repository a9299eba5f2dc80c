import { execFile, spawnSync } from 'node:child_process'
import t from 'tap'
import { startProduct } from './product.js'

const MISSING = spawnSync('ssh', ['-V']).error === undefined ? false : 'there is no ssh here'

t.test('ssh shows its user what to use instead of ssh -R', { skip: MISSING }, async (t) => {
  const { agents } = await startProduct(t)
  const options = ['-F', '/dev/null', '-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null']
  const args = [...options, '-R', '80:localhost:8080', '-p', String(agents.port), 'v2@127.0.0.1', 'http']
  const { code, shown } = await new Promise<{ code: unknown; shown: string }>((resolve) => {
    execFile('ssh', args, { timeout: 60_000 }, (error, _out, shown) => resolve({ code: error?.code, shown }))
  })
  t.equal(code, 255)
  t.match(shown, /Sluice does not serve ssh -R\. .*sluice agent --server HOST:PORT .*docs\/agents\.md/)
})
