CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,
    created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT);
INSERT INTO history VALUES
 ('61e96503', '2fa55530', NULL, 'I prefer dark roast coffee', 'ADD', '2026-11-17T06:54:10.897439+00:00', '2026-11-17T06:54:10.897439+00:00', 0, NULL, 'user'),
 ('ec47ed46', '1ee4cbaa', NULL, 'The staging database is called shop_stage', 'ADD', '2026-11-17T06:54:10.933490+00:00', '2026-11-17T06:54:10.933490+00:00', 0, NULL, 'user'),
 ('2643d4a5', '2fa55530', 'I prefer dark roast coffee', 'I prefer light roast coffee', 'UPDATE', '2026-11-17T06:54:10.897439+00:00', '2026-11-17T06:54:10.952671+00:00', 0, NULL, 'user'),
 ('2ef9cf71', '07409665', NULL, 'Old address of the office', 'ADD', '2026-11-17T06:54:10.968299+00:00', '2026-11-17T06:54:10.968299+00:00', 0, NULL, 'user'),
 ('7b3a2186', '07409665', 'Old address of the office', NULL, 'DELETE', '2026-11-17T06:54:10.968299+00:00', '2026-11-17T06:54:10.989264+00:00', 1, NULL, 'user');
