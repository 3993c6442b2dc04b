CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, text TEXT,
    type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT,
    files_modified TEXT, prompt_number INTEGER, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL,
    merged_into_project TEXT);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, memory_session_id TEXT NOT NULL, project TEXT NOT NULL,
    request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, notes TEXT,
    created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
INSERT INTO observations VALUES
 (1, 'mem-1', 'shop', NULL, 'decision', 'Prices are stored in cents', 'Money is never a float', '["Column price_cents is an integer","Rounding happens at display time"]', 'The team chose integer cents for all prices after a rounding bug.', '["why-it-exists"]', '["src/models.py"]', '[]', 1, '2026-11-17T06:53:50.962Z', 1794898430962, NULL),
 (2, 'mem-2', 'blog', NULL, 'discovery', 'Posts are cached', NULL, '[]', 'The blog caches rendered posts for an hour.', '[]', '[]', '[]', 1, '2026-11-17T06:53:51.962Z', 1794898431962, NULL),
 (3, 'mem-1', 'shop', NULL, 'change', 'Nothing', NULL, '[]', NULL, '[]', '[]', '[]', 1, '2026-11-17T06:53:52.962Z', 1794898432962, NULL);
INSERT INTO session_summaries VALUES
 (1, 'mem-1', 'shop', 'Add a discount field', 'models and checkout', 'Discounts apply before tax', 'Field and migration added', 'Show it in the cart', NULL, '2026-11-17T06:53:50.963Z', 1794898430963);
