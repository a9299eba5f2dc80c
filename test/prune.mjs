import { existsSync, readdirSync, rmSync } from 'node:fs'

// A test that was compiled once and whose source is gone would still be found by the runner.
for (const name of readdirSync('dist-test/test', { recursive: true })) {
  if (!name.endsWith('.test.js')) continue
  if (!existsSync(`test/${name.slice(0, -'.js'.length)}.ts`)) rmSync(`dist-test/test/${name}`)
}
