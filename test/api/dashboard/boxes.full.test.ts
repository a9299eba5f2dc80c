import { readFile } from 'node:fs/promises'
import t from 'tap'
import { pagesOf } from '../../../src/app/capability.js'
import { serverCapabilities } from '../../../src/capabilities/registry.js'
import { boxFaults } from './boxes.js'
import { dashboard, missing } from './browser.js'
import { PAGES, startBusyProduct } from './busy.js'

t.test('every page of the dashboard is looked at', async (t) => {
  const kernel = await readFile('src/api/dashboard/pages/pages.js', 'utf8')
  const ids = [...kernel.matchAll(/\{ id: '(\w+)'/g)].map(([, id]) => id)
  const capabilities = [...pagesOf(await serverCapabilities(), undefined).values()].map(({ path }) => path)
  t.same([...ids, ...capabilities].sort(), [...PAGES].sort())
})

for (const width of [1280, 360]) {
  t.test(`nothing is cut and nothing overlaps, ${width} px wide`, { skip: missing, timeout: 240_000 }, async (t) => {
    const { sluice, places } = await startBusyProduct(t)
    const { page, go, picture } = await dashboard(t, { sluice, size: { width, height: 800 } })
    for (const [name, place] of places) {
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        await go(place)
        t.same(await boxFaults(page), [], `${name}, ${colorScheme}`)
        await picture(`${name}-${width}-${colorScheme}`)
      }
    }
    if (width > 1000) return
    const pages = page.getByRole('navigation', { name: 'Pages' })
    await pages.getByRole('button', { name: 'History' }).click()
    await picture(`menu-${width}`)
    await pages.getByRole('link', { name: 'Limits' }).click()
    await page.getByRole('heading', { name: 'Limits', level: 1 }).waitFor()
    await pages.getByRole('link', { name: 'Limits' }).waitFor({ state: 'hidden' })
  })
}
