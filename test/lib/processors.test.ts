import t from 'tap'
import { processorsOfProcess } from '../../src/lib/processors.js'

/** What a process would find in these files. */
const of = (files: Readonly<Record<string, string>>, all: number) =>
  processorsOfProcess(async (path) => files[path], all)

t.test('processors are those that the process may run on, and no more than a quota gives', async (t) => {
  t.equal(await of({}, 8), 8, 'no control groups')
  const v2 = { '/proc/self/cgroup': '0::/a.slice/b.scope\n' }
  t.equal(await of({ ...v2, '/sys/fs/cgroup/a.slice/b.scope/cpu.max': 'max 100000\n' }, 8), 8)
  t.equal(await of({ ...v2, '/sys/fs/cgroup/a.slice/b.scope/cpu.max': '350000 100000\n' }, 8), 3)
  t.equal(await of({ ...v2, '/sys/fs/cgroup/a.slice/cpu.max': '200000 100000\n' }, 8), 2, 'of the group above')
  t.equal(await of({ ...v2, '/sys/fs/cgroup/cpu.max': '50000 100000\n' }, 8), 1, 'at least one')
  t.equal(
    await of({ ...v2, '/sys/fs/cgroup/a.slice/cpu.max': '1600000 100000\n' }, 8),
    8,
    'a quota gives no more than there are'
  )
  const v1 = { '/proc/self/cgroup': '4:memory:/x\n3:cpu,cpuacct:/docker/1\n' }
  t.equal(
    await of(
      {
        ...v1,
        '/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us': '250000\n',
        '/sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us': '100000\n'
      },
      8
    ),
    2
  )
  t.equal(
    await of(
      { ...v1, '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1\n', '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n' },
      8
    ),
    8,
    'no quota'
  )
  t.ok((await processorsOfProcess()) >= 1)
})
