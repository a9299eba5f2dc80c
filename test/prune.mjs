import { existsSync, readdirSync, rmSync } from 'node:fs'

// What was compiled once and whose source is gone would still be found by the runner and by tests that read folders.
for (const folder of ['src', 'test']) {
  for (const name of readdirSync(`dist-test/${folder}`, { recursive: true })) {
    if (!name.endsWith('.js')) continue
    if (!existsSync(`${folder}/${name.slice(0, -'.js'.length)}.ts`)) rmSync(`dist-test/${folder}/${name}`)
  }
}
