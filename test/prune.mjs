import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'

// What was compiled once and whose source is gone would still be found by the runner and by tests that read folders.
for (const folder of ['src', 'test']) {
  for (const name of readdirSync(`dist-test/${folder}`, { recursive: true })) {
    if (!name.endsWith('.js')) continue
    if (!existsSync(`${folder}/${name.slice(0, -'.js'.length)}.ts`)) rmSync(`dist-test/${folder}/${name}`)
  }
}

// Traffic threads of tests run the shipped bundle (config/build.mjs): loading its modules one by one is half of the CPU of a start.
writeFileSync('dist-test/src/capabilities/workers/worker.js', "import '../../worker.cjs'\n")
